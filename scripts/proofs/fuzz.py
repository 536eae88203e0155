#!/usr/bin/env python3
"""Fuzzes what reads files and what computes: `fuzz/targets` under libFuzzer and AddressSanitizer (docs/dev/fuzzing.md).

Installs cargo-fuzz into `.cache/`, builds all targets as one program, unpacks the corpus into `.cache/fuzz/kept/`, and
runs each target for N minutes, or those that are named. What they find on the way is kept in `.cache/fuzz/corpus/`,
what fails in `fuzz/artifacts/`. --minimise packs the best of it into `fuzz/corpus/TARGET.zip` instead. Any toolchain
does: a stable RUSTC_BOOTSTRAP makes a stable one take the options that cargo-fuzz gives. Needs a C++ compiler.

Usage: fuzz.py [--minutes N] [--jobs N] [--record FILE [--note TEXT]] [--minimise] [TARGET ...]
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "fuzz"
sys.path[:0] = [str(FUZZ), str(ROOT / "bench")]

import archive  # noqa: E402 (they lie in other folders)
import harness  # noqa: E402

TARGETS = sorted(path.stem for path in (FUZZ / "corpus").glob("*.zip"))
# The corpus of the repository, unpacked.
KEPT = ROOT / ".cache" / "fuzz" / "kept"
# What was found on this machine; what is worth keeping comes into the corpus by --minimise.
FOUND = ROOT / ".cache" / "fuzz" / "corpus"
SEEDS = ROOT / ".cache" / "fuzz" / "seeds"
CARGO_FUZZ = ROOT / ".cache" / "cargo-fuzz"
VERSION = "0.13.2"
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", FUZZ / "target"))
HOST = "x86_64-unknown-linux-gnu" if platform.machine() == "x86_64" else f"{platform.machine()}-unknown-linux-gnu"

# An input of some kilobytes may take no more memory than this, nor longer, however slow the sanitizer is.
LIMITS = ["-max_len=4096", "-malloc_limit_mb=256", "-rss_limit_mb=2560", "-timeout=60"]
# In the corpus of the repository an input is shorter, and a target has this many bytes.
KEPT_LEN, KEPT_BYTES = 2048, 32 << 10


def build():
    if not (CARGO_FUZZ / "bin" / "cargo-fuzz").exists():
        install = ["cargo", "install", "cargo-fuzz", "--version", VERSION, "--locked", "--root", CARGO_FUZZ]
        subprocess.run(install, check=True)
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_DIR": str(BUILT)}
    command = [CARGO_FUZZ / "bin" / "cargo-fuzz", "build", "--fuzz-dir", FUZZ]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def folders(target):
    """Where inputs are: the first is where new ones go."""
    (FOUND / target).mkdir(parents=True, exist_ok=True)
    return [folder for folder in (FOUND / target, KEPT / target, SEEDS / target) if folder.is_dir()]


def run(target, arguments, log):
    """Runs a target in a folder for files that is in memory, where the system has one. Its status, and the processor's
    seconds."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        environment = {**os.environ, "TMPDIR": scratch, "FUZZ_TARGET": target}
        (FUZZ / "artifacts" / target).mkdir(parents=True, exist_ok=True)
        command = [BUILT / HOST / "release" / "any", f"-artifact_prefix={FUZZ}/artifacts/{target}/", *LIMITS, *arguments]
        with open(log, "w") as out:
            child = subprocess.Popen(command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage.ru_utime + usage.ru_stime


def fuzz(target, minutes):
    """A row of the record, and whether all went well."""
    dictionary = FUZZ / "dictionaries" / f"{target}.dict"
    arguments = [f"-max_total_time={round(60 * minutes)}", "-print_final_stats=1", *folders(target)]
    if dictionary.exists():
        arguments.insert(0, f"-dict={dictionary}")
    log = FOUND.parent / f"{target}.log"
    failed, seconds = run(target, arguments, log)
    text = log.read_text(errors="replace")
    coverage = re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", text)
    edges, inputs = coverage[-1] if coverage else ("?", "?")
    runs = re.search(r"number_of_executed_units: (\d+)", text) or re.search(r"Done (\d+) runs", text)
    runs = int(runs[1]) if runs else 0
    row = [target, f"{minutes:g}", f"{seconds / 60:.1f}", f"{runs:,}", f"{runs / max(seconds, 1):,.0f}", edges, inputs, int(failed != 0)]
    print(*row, *([f"see {log}"] if failed else []), sep=" | ", flush=True)
    return row, not failed


def unpack(target):
    shutil.rmtree(KEPT / target, ignore_errors=True)
    archive.unpack(target, KEPT / target)


def minimise(target):
    """Packs into the repository's corpus the fewest inputs that reach what all of them reach, the shortest first."""
    kept = {name: data for name, data in archive.read(target).items() if archive.is_named(name, data)}
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        log = FOUND.parent / f"{target}.merge.log"
        if run(target, ["-set_cover_merge=1", f"-max_len={KEPT_LEN}", folder, *folders(target)], log)[0]:
            sys.exit(f"fuzz: {target} cannot be minimised: see {log}")
        left = KEPT_BYTES - sum(map(len, kept.values()))
        for path in sorted(Path(folder).iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            data = path.read_bytes()
            # libFuzzer does not notice that a disk is full.
            if archive.is_named(archive.short(path.name, data), data):
                sys.exit(f"fuzz: {path}: not the input that its name is the SHA-1 of: is there room in .cache?")
            left -= len(data)
            if left < 0:
                break
            kept[archive.short(path.name, data)] = data
    archive.pack(target, kept)
    print(f"{target}: {len(kept)} inputs", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument("--record", type=Path, help="append the numbers to this file")
    parser.add_argument("--note", default="", help="what the record should say of the machine")
    parser.add_argument("--minimise", action="store_true", help="take what was found into fuzz/corpus instead")
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=", ".join(TARGETS))
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))} (want {', '.join(TARGETS)})")
    targets = args.targets or TARGETS
    build()
    for target in targets:
        unpack(target)
    with ThreadPoolExecutor(args.jobs) as pool:
        if args.minimise:
            list(pool.map(minimise, targets))
            return
        results = list(pool.map(lambda target: fuzz(target, args.minutes), targets))
    if args.record:
        text = f"`scripts/proofs/fuzz.py --minutes {args.minutes:g} --jobs {args.jobs}` {args.note}".strip()
        header = ["target", "minutes elapsed", "of a processor", "executions", "a second of it", "edges", "inputs", "failures"]
        harness.record(args.record, "", text, harness.table(header, [row for row, _ in results]))
    if not all(well for _, well in results):
        sys.exit("fuzz: inputs that fail are in fuzz/artifacts")


if __name__ == "__main__":
    main()
