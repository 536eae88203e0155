"""Each library behind one face: `cast(pair, place, elements)` gives a function that casts so often between two places and
tells the seconds. A pair that a library lacks gives None.

Outputs are made beforehand wherever the interface has a way to. Of scaled casts each does what its users would write:
numpy and PyTorch divide and cast, with what rounds and clamps to integers; onnxruntime runs a model of one node; torchao
and gguf call their own functions, which make a new tensor each time. Tensors have rows of at most 1024 elements, and no
zero points."""

import itertools
import time

import ml_dtypes
import numpy

from element_types import BLOCK, SCALES


class Place:
    """Where sources lie and results go, once as ONNX packs them and once with a byte to each element; and scales."""

    def __init__(self, source, target, loose_source, loose_target, scales):
        self.source, self.target = source, target
        self.loose_source, self.loose_target = loose_source, loose_target
        self.scales = scales


# The rules that all follow: MX's scale by the OCP text, NVFP4's as torchao's.
GLOBAL = 0.5
RANGES = {"int8": (-128, 127), "int4": (-8, 7)}
# Scales that quantizing finds.
FORMATS = ("mxfp4", "nvfp4")


def fill(pair, place, elements):
    """Scales of so many elements, in place: floats from 1 to 2, or the codes to dequantize with."""
    shape = pair.scales(elements)
    rng = numpy.random.default_rng(2)
    if pair.scale not in FORMATS:
        scales(pair, place, elements)[...] = rng.uniform(1, 2, shape)
    else:
        # Of float8e8m0 1/4 to 4, of float8e4m3fn 1 to 2.
        least, most = (125, 130) if pair.scale == "mxfp4" else (0x38, 0x41)
        scales(pair, place, elements)[...] = rng.integers(least, most, shape)


def scales(pair, place, elements):
    """The scales as an array: floats, or codes of the block formats."""
    shape = pair.scales(elements)
    dtype = numpy.uint8 if pair.scale in FORMATS else numpy.float32
    return place.scales.array(dtype, int(numpy.prod(shape, dtype=int))).reshape(shape)


def spread(values, scale, block):
    """Values and scales in shapes that broadcast."""
    if scale.ndim == 2:
        return values.reshape(*scale.shape, block), scale[..., None]
    return values, scale[:, None] if scale.ndim else scale


def repeated(call):
    """seconds(repeat) of a call from Python."""

    def seconds(repeat):
        times = itertools.repeat(None, repeat)
        start = time.perf_counter()
        for _ in times:
            call()
        return time.perf_counter() - start

    return seconds


class Rust:
    """Ours, and the peers in the library of this folder. The clock is in there."""

    calls_cost = False

    def __init__(self, peers, name, threads):
        self.function, self.threads = peers.function(name), threads
        self.scaled = peers.scaled() if name == "ours" else None

    def loose(self, data_type):
        return False

    def call(self, pair, place, elements):
        """Of how often to cast, the seconds; of 0, it casts once and leaves the result in place."""
        types, addresses = (pair.source.number, pair.target.number), (place.source.address, place.target.address)
        if not pair.scale:
            return lambda repeat: self.function(*types, self.threads, *addresses, elements, repeat)
        kind, columns = SCALES.index(pair.scale), pair.shape(elements)[1]
        addresses += (place.scales.address,)
        return lambda repeat: self.scaled(*types, kind, self.threads, *addresses, elements, columns, repeat)

    def cast(self, pair, place, elements):
        if pair.scale and not self.scaled:
            return None
        # A small trial shows whether the library has the pair.
        has = self.call(pair, place, min(elements, 64))(1) >= 0
        return self.call(pair, place, elements) if has else None

    def result(self, pair, place, elements):
        self.call(pair, place, elements)(0)


class Python:
    """A package whose calls go through Python, which costs what a cast of one element costs."""

    calls_cost = True

    def cast(self, pair, place, elements):
        try:
            few = self.call(pair, place, min(elements, 64))
            if few is None:
                return None
            few()
        except Exception:  # whatever a package throws where it lacks a pair
            return None
        return repeated(self.call(pair, place, elements))

    def result(self, pair, place, elements):
        self.call(pair, place, elements)()

    def loose(self, data_type):
        """Whether it keeps each of the type's elements in a byte where ONNX packs several."""
        return False


def numpy_type(data_type):
    return numpy.dtype(getattr(ml_dtypes, data_type.numpy, None) or data_type.numpy)


class Numpy(Python):
    """numpy, with the types of ml_dtypes."""

    def loose(self, data_type):
        return data_type.bits < 8

    def call(self, pair, place, elements):
        source, target = pair.source, pair.target
        x = (place.loose_source if self.loose(source) else place.source).array(numpy_type(source), elements)
        y = (place.loose_target if self.loose(target) else place.target).array(numpy_type(target), elements)
        if not pair.scale:
            return lambda: numpy.copyto(y, x, casting="unsafe")
        if pair.scale in FORMATS:
            return None
        shape = pair.shape(elements)
        factors = scales(pair, place, elements)
        x, factor = spread(x.reshape(shape), factors, BLOCK)
        y, _ = spread(y.reshape(shape), factors, BLOCK)
        if pair.quantizes:
            quotients = numpy.empty(x.shape, numpy.float32)
            limits = RANGES.get(target.name)

            def quantize():
                numpy.divide(x, factor, out=quotients)
                if limits:
                    numpy.rint(quotients, out=quotients)
                    numpy.clip(quotients, *limits, out=quotients)
                numpy.copyto(y, quotients, casting="unsafe")

            return quantize
        if source.name == "int8":
            return lambda: numpy.multiply(x, factor, out=y)
        values = numpy.empty(x.shape, numpy.float32)

        def dequantize():
            numpy.copyto(values, x, casting="unsafe")
            if target.name == "float":
                numpy.multiply(values, factor, out=y)
            else:
                numpy.multiply(values, factor, out=values)
                numpy.copyto(y, values, casting="unsafe")

        return dequantize


class Torch(Python):
    """PyTorch on the processor."""

    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch

    def call(self, pair, place, elements):
        types = [data_type.torch and getattr(self.torch, data_type.torch) for data_type in (pair.source, pair.target)]
        if None in types or pair.scale in FORMATS:
            return None
        torch = self.torch
        places = zip((place.source, place.target), (pair.source, pair.target), types, strict=True)
        x, y = (torch.from_numpy(at.array(numpy.uint8, one.bytes(elements))).view(kind) for at, one, kind in places)
        if not pair.scale:
            return lambda: y.copy_(x)
        x, y = x.view(pair.shape(elements)), y.view(pair.shape(elements))
        factors = torch.from_numpy(scales(pair, place, elements))
        x, factor = spread(x, factors, BLOCK)
        y, _ = spread(y, factors, BLOCK)
        values = torch.empty(x.shape)
        limits = RANGES.get(pair.target.name)

        def quantize():
            torch.div(x, factor, out=values)
            if limits:
                values.round_().clamp_(*limits)
            y.copy_(values)

        def dequantize():
            if pair.source.name == "int8":
                torch.mul(x, factor, out=y)
            else:
                y.copy_(values.copy_(x).mul_(factor))

        return quantize if pair.quantizes else dequantize


class OnnxRuntime(Python):
    """onnxruntime: a model of one node, bound to the places."""

    OPSET, IR = 25, 12

    def __init__(self, threads):
        import onnx
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads
        self.sessions = {}

    def session(self, pair):
        if pair not in self.sessions:
            self.sessions = {pair: self.load(pair)}
        return self.sessions[pair]

    def load(self, pair):
        """A session, or None where the package lacks the pair."""
        if pair.scale in FORMATS:
            return None
        make, number, float_ = self.onnx.helper, pair.target.number, self.onnx.TensorProto.FLOAT
        shape = ["rows", "columns"] if pair.scale else ["n"]
        operator, attributes, scale = "Cast", {"to": number}, []
        if pair.scale:
            operator = "QuantizeLinear" if pair.quantizes else "DequantizeLinear"
            attributes = {"tensor": {}, "axis": {"axis": 0}, "blocks": {"axis": 1, "block_size": BLOCK}}[pair.scale]
            attributes |= {"output_dtype": number} if pair.quantizes or pair.target.name != "float" else {}
            scale = [make.make_tensor_value_info("scale", float_, ["s"] * len(pair.scales(64)))]
        x, y = (make.make_tensor_value_info(*end, shape) for end in (("x", pair.source.number), ("y", number)))
        node = make.make_node(operator, ["x", *(["scale"] if scale else [])], ["y"], **attributes)
        graph = make.make_graph([node], "cast", [x, *scale], [y])
        opsets = [make.make_opsetid("", self.OPSET)]
        model = make.make_model(graph, opset_imports=opsets, ir_version=self.IR)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return self.runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # of the package's own kinds, for want of the pair
            return None

    def call(self, pair, place, elements):
        session = self.session(pair)
        if session is None:
            return None
        binding = session.io_binding()
        shape = pair.shape(elements) if pair.scale else [elements]
        binding.bind_input("x", "cpu", 0, pair.source.number, shape, place.source.address)
        if pair.scale:
            float_ = self.onnx.TensorProto.FLOAT
            binding.bind_input("scale", "cpu", 0, float_, pair.scales(elements), place.scales.address)
        binding.bind_output("y", "cpu", 0, pair.target.number, shape, place.target.address)
        return lambda: session.run_with_iobinding(binding)


class NumKong(Python):
    """NumKong's `astype`, which has threads for none of this."""

    def __init__(self):
        import numkong

        self.numkong = numkong

    def loose(self, data_type):
        return data_type.bits == 6

    def call(self, pair, place, elements):
        source, target = pair.source, pair.target
        if source.numkong is None or target.numkong is None or pair.scale:
            return None
        tensor, astype = self.numkong.from_pointer, self.numkong.astype
        from_arena = place.loose_source if self.loose(source) else place.source
        to_arena = place.loose_target if self.loose(target) else place.target
        x = tensor(from_arena.address, elements, source.numkong, owner=from_arena.bytes)
        y = tensor(to_arena.address, elements, target.numkong, owner=to_arena.bytes)
        name = target.numkong
        return lambda: astype(x, name, out=y)


class Made(Python):
    """A package whose functions make a new tensor."""

    def result(self, pair, place, elements):
        made = self.call(pair, place, elements)()
        place.target.bytes[: pair.target.bytes(elements)] = self.bytes_of(pair, made)


class TorchAo(Made):
    """torchao: the conversions to and from MXFP4 and NVFP4, and affine quantization."""

    def __init__(self, threads):
        import torch
        from torchao.prototype.mx_formats import mx_tensor, nvfp4_tensor
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.quantization import quant_primitives

        torch.set_num_threads(threads)
        self.torch, self.mx, self.nvfp4 = torch, mx_tensor, nvfp4_tensor
        self.floor, self.affine = ScaleCalculationMode.FLOOR, quant_primitives

    def bytes_of(self, pair, made):
        return made.contiguous().view(self.torch.uint8).numpy().reshape(-1)

    def call(self, pair, place, elements):
        if not pair.scale:
            return None
        torch, shape = self.torch, pair.shape(elements)
        kinds = pair.source, pair.target
        source, target = (getattr(torch, kind.torch) if kind.torch else torch.uint8 for kind in kinds)
        x = torch.from_numpy(place.source.array(numpy.uint8, pair.source.bytes(elements)))
        factors = torch.from_numpy(scales(pair, place, elements))
        if pair.scale == "mxfp4":
            element = torch.float4_e2m1fn_x2
            if pair.quantizes:
                x = x.view(torch.float32).view(shape)
                return lambda: self.mx.to_mx(x, element, 32, self.floor)[1]
            x, factors = x.view(shape[0], -1), factors.view(torch.float8_e8m0fnu)
            return lambda: self.mx.to_dtype(x, factors, element, 32, target)
        if pair.scale == "nvfp4":
            if pair.quantizes:
                x = x.view(torch.float32).view(shape)

                def quantize():
                    scale = self.nvfp4.per_tensor_amax_to_scale(x.abs().amax())
                    return self.nvfp4.nvfp4_quantize(x, 16, scale)[1]

                return quantize
            scale = torch.tensor(GLOBAL)
            x, factors = x.view(shape[0], -1), factors.view(torch.float8_e4m3fn)
            tensor = self.nvfp4.NVFP4Tensor(x, factors, 16, target, per_tensor_scale=scale)
            return lambda: tensor.dequantize(target)
        if pair.quantized.name != "int8":
            return None
        x = x.view(source).view(shape)
        block = {"tensor": shape, "axis": (1, shape[1]), "blocks": (1, BLOCK)}[pair.scale]
        if pair.quantizes:
            zeros = torch.zeros(factors.shape, dtype=torch.int8)
            return lambda: self.affine.quantize_affine(x, block, factors, zeros, torch.int8, -128, 127)
        return lambda: self.affine.dequantize_affine(
            x, block, factors, None, torch.int8, -128, 127, output_dtype=target
        )


class Gguf(Made):
    """gguf's MXFP4. It keeps the first half of a block in the low bits, and the scale before it."""

    def __init__(self):
        from gguf import quants

        self.mxfp4 = quants.MXFP4

    def bytes_of(self, pair, made):
        if not pair.quantizes:
            return made.view(numpy.uint8).reshape(-1)
        halves = made.reshape(-1, 17)[:, 1:]
        codes = numpy.concatenate([halves & 15, halves >> 4], axis=1).reshape(-1)
        return codes[::2] | codes[1::2] << 4

    def call(self, pair, place, elements):
        if pair.scale != "mxfp4" or pair.target.name == "bfloat16":
            return None
        if pair.quantizes:
            x = place.source.array(numpy.float32, elements).reshape(pair.shape(elements))
            return lambda: self.mxfp4.quantize(x)
        packed = place.source.array(numpy.uint8, elements // 2)
        codes = numpy.stack([packed & 15, packed >> 4], axis=1).reshape(-1, 2, 16)
        blocks = numpy.concatenate(
            [scales(pair, place, elements).reshape(-1, 1), codes[:, 0] | codes[:, 1] << 4], axis=1
        )
        blocks = blocks.reshape(pair.shape(elements)[0], -1)
        return lambda: self.mxfp4.dequantize(blocks)


def load(names, peers, threads):
    """The libraries of these names."""
    packages = {
        "numpy": Numpy,
        "torch": lambda: Torch(threads),
        "torchao": lambda: TorchAo(threads),
        "onnxruntime": lambda: OnnxRuntime(threads),
        "numkong": NumKong,
        "gguf": Gguf,
    }
    return {name: packages[name]() if name in packages else Rust(peers, name, threads) for name in names}
