"""Holds the oracle of the test kit against gfloat, ml_dtypes, numpy and Python itself.

Run it as `python3 crates/testkit/python/check_oracle.py`, where numpy, ml_dtypes and gfloat can be imported. It builds
and runs the program `oracle-table` of the test kit, which prints casts as the oracle does them, and asks each peer for
the same casts wherever the peer rounds once from the exact value: gfloat from double, ml_dtypes from float, numpy
between its own types, Python for decimal text. Any difference that is not one of the named ones below is an error.
"""

import sys

import gfloat
import ml_dtypes
import numpy as np
from gfloat import formats
from oracle_table import blocks

# name: reason. A difference is counted under its name; one without a name fails the run, and so does a name without a
# difference. What a peer leaves undefined (in numpy, floats to integers out of range) is not asked at all.
NAMED = {
    "ml_dtypes: NaN of negative sign to float4 and float6": "+0, where every NaN gives -0 by ONNX's table",
    "ml_dtypes: zero and less to float8e8m0": "NaN, where ONNX saturates to 2^-127",
    "ml_dtypes: just above 2^-127 to float8e8m0": "2^-126, although 2^-127 is nearer",
    "ml_dtypes: overflow to float8e8m0": "NaN, where ONNX saturates to 2^127",
}

GFLOAT = {
    "float": formats.format_info_binary32,
    "double": formats.format_info_binary64,
    "float16": formats.format_info_binary16,
    "bfloat16": formats.format_info_bfloat16,
    "float8e4m3fn": formats.format_info_ocp_e4m3,
    "float8e5m2": formats.format_info_ocp_e5m2,
    # The finite P3109 formats of 8 bits are the two FNUZ ones: same bias, one NaN at the code of -0, no infinity.
    "float8e4m3fnuz": formats.format_info_p3109(8, 4, domain=gfloat.Domain.Finite),
    "float8e5m2fnuz": formats.format_info_p3109(8, 3, domain=gfloat.Domain.Finite),
    "float8e8m0": formats.format_info_ocp_e8m0,
    "float6e2m3": formats.format_info_ocp_e2m3,
    "float6e3m2": formats.format_info_ocp_e3m2,
    "float4e2m1": formats.format_info_ocp_e2m1,
}

NUMPY = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
    "float6e2m3": ml_dtypes.float6_e2m3fn,
    "float6e3m2": ml_dtypes.float6_e3m2fn,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
} | {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)}

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SATURATING = ("float6e2m3", "float6e3m2", "float4e2m1")
FNUZ = ("float8e4m3fnuz", "float8e5m2fnuz")


def values_of(name, bits):
    """The numpy values with the given bit patterns."""
    dtype = np.dtype(NUMPY[name])
    return bits.astype(UNSIGNED[dtype.itemsize]).view(dtype)


def bits_of(values):
    """The bit patterns of numpy values."""
    return values.view(UNSIGNED[values.dtype.itemsize]).astype(np.uint64)


class Tally:
    """Counts what was compared and what differed, and says so."""

    def __init__(self, reasons):
        self.reasons = reasons
        self.compared = {}
        self.named = {}
        self.failures = 0

    def check(self, peer, label, source, got, want, among, names=()):
        """Compares `got`, the oracle's, with `want`, the peer's, where `among` is true.

        `names` are pairs of a named difference and the mask of the elements that it may explain.
        """
        among = among.copy()
        differ = among & (got != want)
        for name, mask in names:
            assert name in self.reasons, name
            self.named[name] = self.named.get(name, 0) + int((differ & mask).sum())
            differ &= ~mask
        self.compared[peer] = self.compared.get(peer, 0) + int(among.sum())
        if differ.any():
            self.failures += int(differ.sum())
            print(f"{peer}: {label}: {differ.sum()} of {among.sum()} differ")
            for i in np.nonzero(differ)[0][:5]:
                print(f"    {source[i]:#x}: oracle {got[i]:#x}, {peer} {want[i]:#x}")

    def report(self):
        """Prints the counts. Gives 1 if anything differs without a name, or a name stands for nothing, else 0."""
        for peer, count in self.compared.items():
            print(f"{peer}: {count} compared")
        for name, reason in self.reasons.items():
            print(f"named difference, {self.named.get(name, 0)} times: {name}: {reason}")
        if self.failures:
            print(f"{self.failures} differences without a name")
        stale = [name for name in self.reasons if not self.named.get(name)]
        for name in stale:
            print(f"named difference that does not occur: {name}")
        return 1 if self.failures or stale else 0


def check_against_gfloat(tally, label, block, source, result):
    """Decodes every code, or rounds doubles and floats, which gfloat does in double without another rounding."""
    from_, to, _, saturate, mode = block
    if from_ in GFLOAT and to == "double" and len(source) <= 65536 and from_ != "float":
        decoded = gfloat.decode_ndarray(GFLOAT[from_], source.astype(np.int64))
        numbers = ~np.isnan(decoded)
        assert (np.isnan(values_of("double", result)) == ~numbers).all(), f"{label}: NaN"
        tally.check("gfloat decode", label, source, result, bits_of(decoded.astype(np.float64)), numbers)
        return
    if from_ not in ("double", "float") or to not in GFLOAT or to == "double":
        return
    info = GFLOAT[to]
    values = values_of(from_, source)
    with np.errstate(invalid="ignore"):
        values = values.astype(np.float64)
    among = np.ones(len(values), bool)
    rounding = gfloat.RoundMode.TiesToEven
    if to == "float8e8m0":
        among = (values >= 2.0**-127) & (values <= 2.0**127) | np.isnan(values)
        rounding = {
            "up": gfloat.RoundMode.TowardPositive,
            "down": gfloat.RoundMode.TowardNegative,
            "nearest": gfloat.RoundMode.TiesToAway,
        }[mode]
    if to in SATURATING:
        saturate = True
        among &= ~np.isnan(values)
    elif to in ("float", "double", "float16", "bfloat16"):
        saturate = False
    if to in FNUZ and block[2] <= 23:
        # Then infinity gave NaN.
        among &= ~np.isinf(values)
    asked = np.where(among, values, 1.0)
    with np.errstate(over="ignore"):
        want = gfloat.encode_ndarray(info, gfloat.round_ndarray(info, asked, rounding, saturate))
    got = result.copy()
    nan = among & np.isnan(gfloat.decode_ndarray(info, want.astype(np.int64)))
    if nan.any():
        # gfloat has one NaN, without sign and payload: NaN is compared as NaN.
        same = np.isnan(gfloat.decode_ndarray(info, result.astype(np.int64)))
        assert (same[among] == nan[among]).all(), f"{label}: NaN"
        got[nan] = want[nan]
    tally.check("gfloat round", label, source, got, want, among)


def check_against_numpy(tally, label, block, source, result):
    """Casts with numpy and, for its types, ml_dtypes; from float, or between types that numpy converts itself."""
    from_, to, version, saturate, mode = block
    own = ("float", "double", "float16")
    integers = [name for name in NUMPY if "int" in name]
    narrow_to_wide = from_ in NUMPY and to in ("float", "double") and len(source) <= 65536
    if not (from_ == "float" or narrow_to_wide or from_ in integers or {from_, to} <= {*own, *integers}):
        return
    if to not in NUMPY or from_ not in NUMPY:
        return
    peer = "numpy" if {from_, to} <= {*own, *integers} else "ml_dtypes"
    if to in integers and from_ == "double":
        peer = "numpy"
    values = values_of(from_, source)
    with np.errstate(all="ignore"):
        want_values = values.astype(NUMPY[to])
        wide = values.astype(np.float64)
    want = bits_of(want_values)
    nan = np.isnan(wide)
    among = ~nan
    names = []
    if to in integers:
        limits = np.iinfo(NUMPY[to])
        with np.errstate(invalid="ignore"):
            # numpy converts in-range values alike everywhere, others as the machine likes.
            whole = np.trunc(wide)
            among &= (whole >= float(limits.min)) & (whole < 2.0 ** (limits.bits - (limits.min < 0)))
    elif to == "float8e8m0":
        if not saturate or mode != "nearest":
            return
        names = [
            ("ml_dtypes: zero and less to float8e8m0", wide <= 0),
            ("ml_dtypes: just above 2^-127 to float8e8m0", (wide > 2.0**-127) & (wide < 1.5 * 2.0**-127)),
            ("ml_dtypes: overflow to float8e8m0", wide >= 1.5 * 2.0**127),
        ]
    elif to in SATURATING:
        if version <= 23:
            return
        among = np.ones(len(values), bool)
        names = [("ml_dtypes: NaN of negative sign to float4 and float6", nan & np.signbit(values))]
    elif to.startswith("float8"):
        # ml_dtypes does not saturate.
        if saturate:
            return
    if to not in integers and to not in SATURATING:
        with np.errstate(invalid="ignore"):
            same = np.isnan(values_of(to, result))
        assert same[nan].all(), f"{label}: NaN"
        if from_ != "float8e8m0" and peer == "ml_dtypes" and to in ("float", "double"):
            sign = np.signbit(want_values) == np.signbit(values_of(to, result))
            assert sign[nan].all(), f"{label}: sign of NaN"
    tally.check(peer, label, source, result, want, among, names)


def plain(value):
    """Shortest digits without exponent, as Python and numpy find them."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return np.format_float_positional(value, unique=True, trim="-")


def check_texts(tally, kind, name, lines):
    """Printed numbers against numpy and repr, read numbers against float()."""
    peer = f"{'numpy and Python' if kind == 'print' else 'Python'}, {kind}"
    for line in lines:
        if kind == "read":
            text, got = line
            want = f"{int(bits_of(np.array([float(text)]))[0]):x}"
        else:
            bits, got = line
            value = values_of(name, np.array([int(bits, 16)], np.uint64))[0]
            if name == "float16":
                value = np.float32(value)
            want = plain(value)
            if name == "double" and np.isfinite(value) and "e" not in repr(float(value)):
                assert want == repr(float(value)).removesuffix(".0"), (want, float(value))
        tally.compared[peer] = tally.compared.get(peer, 0) + 1
        if got != want:
            tally.failures += 1
            print(f"{peer}: {name}: {line}: want {want}")


def main():
    tally = Tally(NAMED)
    alone = set()
    for words, rows in blocks():
        if words[0] == "cast":
            from_, to, version, saturate, mode = words[1:-1]
            types = [name for name in (from_, to) if "int" not in name and name not in GFLOAT]
            alone.update(types)
            if types:
                continue
            block = (from_, to, int(version), saturate == "true", mode)
            label = " ".join(words[1:-1])
            check_against_gfloat(tally, label, block, *rows)
            check_against_numpy(tally, label, block, *rows)
        else:
            check_texts(tally, words[0], words[1], rows)
    failed = tally.report()
    for name in sorted(alone):
        print(f"{name} has no entry in GFLOAT of check_oracle.py: no other implementation was compared with the oracle")
    return 1 if failed or alone else 0


if __name__ == "__main__":
    sys.exit(main())
