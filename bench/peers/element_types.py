"""The numeric element types of ONNX, and what each peer calls them. A test holds the names against ONNX's own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """A type: ONNX's name and number, bits as ONNX packs them, and its name in numpy (or ml_dtypes), torch, NumKong."""

    name: str
    number: int
    bits: int
    numpy: str
    torch: str | None = None
    numkong: str | None = None
    signed: bool = True
    limit: float = 8.0  # values below this magnitude are in range

    def bytes(self, elements):
        return (elements * self.bits + 7) // 8


TYPES = {
    row.name: row
    for row in [
        Type("float", 1, 32, "float32", "float32", "float32"),
        Type("uint8", 2, 8, "uint8", "uint8", "uint8", signed=False),
        Type("int8", 3, 8, "int8", "int8", "int8"),
        Type("uint16", 4, 16, "uint16", "uint16", "uint16", signed=False),
        Type("int16", 5, 16, "int16", "int16", "int16"),
        Type("int32", 6, 32, "int32", "int32", "int32"),
        Type("int64", 7, 64, "int64", "int64", "int64"),
        Type("bool", 9, 8, "bool", "bool", signed=False),
        Type("float16", 10, 16, "float16", "float16", "float16"),
        Type("double", 11, 64, "float64", "float64", "float64"),
        Type("uint32", 12, 32, "uint32", "uint32", "uint32", signed=False),
        Type("uint64", 13, 64, "uint64", "uint64", "uint64", signed=False),
        Type("bfloat16", 16, 16, "bfloat16", "bfloat16", "bfloat16"),
        Type("float8e4m3fn", 17, 8, "float8_e4m3fn", "float8_e4m3fn", "e4m3"),
        Type("float8e4m3fnuz", 18, 8, "float8_e4m3fnuz", "float8_e4m3fnuz"),
        Type("float8e5m2", 19, 8, "float8_e5m2", "float8_e5m2", "e5m2"),
        Type("float8e5m2fnuz", 20, 8, "float8_e5m2fnuz", "float8_e5m2fnuz"),
        Type("uint4", 21, 4, "uint4", None, "uint4", signed=False),
        Type("int4", 22, 4, "int4", None, "int4"),
        Type("float4e2m1", 23, 4, "float4_e2m1fn", limit=6.0),
        Type("float8e8m0", 24, 8, "float8_e8m0fnu", "float8_e8m0fnu", signed=False),
        Type("uint2", 25, 2, "uint2", signed=False, limit=4.0),
        Type("int2", 26, 2, "int2", limit=2.0),
        Type("float6e2m3", 27, 6, "float6_e2m3fn", None, "e2m3", limit=7.5),
        Type("float6e3m2", 28, 6, "float6_e3m2fn", None, "e3m2"),
    ]
}


# How the scales of a scaled cast lie: one float for the tensor, for each row, or for each 32 elements of a row; or as
# the block formats MXFP4 and NVFP4 have them, where quantizing finds them.
SCALES = ("tensor", "axis", "blocks", "mxfp4", "nvfp4")
SCALED = [
    *(f"{pair}:{scale}" for pair in ("float:int8", "float:float8e4m3fn", "float:int4", "int8:float",
      "float8e4m3fn:bfloat16", "int4:float") for scale in ("tensor", "axis", "blocks")),
    *(f"{pair}:{scale}" for scale in ("mxfp4", "nvfp4")
      for pair in ("float:float4e2m1", "float4e2m1:float", "float4e2m1:bfloat16")),
]  # fmt: skip
# Elements of a row at most, and of a block with a float scale.
ROW, BLOCK = 1024, 32


@dataclass(frozen=True)
class Pair:
    """A cast: from a type to another, perhaps with scales."""

    source: Type
    target: Type
    scale: str = ""

    @property
    def quantizes(self):
        """Whether a scaled cast divides by the scales, rather than multiplies."""
        return self.source.name == "float"

    @property
    def quantized(self):
        """The type of a scaled cast's elements."""
        return self.target if self.quantizes else self.source

    def shape(self, elements):
        """The rows and columns of so many elements of a scaled cast."""
        columns = min(elements & -elements, ROW)
        return elements // columns, columns

    def scales(self, elements):
        """The shape of the scales of so many."""
        rows, columns = self.shape(elements)
        block = {"tensor": None, "axis": None, "blocks": BLOCK, "mxfp4": 32, "nvfp4": 16}[self.scale]
        if block is None:
            return () if self.scale == "tensor" else (rows,)
        return rows, -(-columns // block)


def parse_pairs(text):
    """`all`, `casts`, `scaled`, or `float:float16,float:int8:axis,...`, as pairs of types."""
    names = {
        "casts": [f"{source}:{target}" for source in TYPES for target in TYPES],
        "scaled": SCALED,
    }
    names["all"] = names["casts"] + names["scaled"]
    return [parse_pair(pair) for pair in names.get(text, text.split(","))]


def parse_pair(text):
    """One of them."""
    names = text.split(":")
    if not 2 <= len(names) <= 3:
        raise ValueError(f"`{text}` is not a pair (want FROM:TO, or FROM:TO:SCALE)")
    for name in names[:2]:
        if name not in TYPES:
            raise ValueError(f"`{name}` is not a numeric type of ONNX's (one is `float8e4m3fn`)")
    if len(names) == 3 and text not in SCALED:
        raise ValueError(f"`{text}` is not a scaled cast that is measured (one is `{SCALED[0]}`)")
    return Pair(TYPES[names[0]], TYPES[names[1]], *names[2:])
