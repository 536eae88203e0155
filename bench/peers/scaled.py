"""The libraries' scaled casts, behind the face of libraries.py: QuantizeLinear and DequantizeLinear with float scales,
and MXFP4 and NVFP4, whose scales quantizing finds. Tensors have rows of at most 1024 elements, and no zero points.

Each does what its users would write: numpy and PyTorch divide and cast, with what rounds and clamps to integers, into
memory made beforehand; onnxruntime runs a model of one node; torchao and gguf call their own functions, which make a
new tensor each time."""

import numpy

import element_types
import libraries

# The rules that all follow: MX's scale by the OCP text, NVFP4's as torchao's.
GLOBAL = 0.5
RANGES = {"int8": (-128, 127), "int4": (-8, 7)}


def fill(pair, place, elements):
    """Scales of so many elements, in place: floats from 1 to 2, or the codes to dequantize with."""
    shape = pair.scales(elements)
    rng = numpy.random.default_rng(2)
    if pair.scale in ("tensor", "axis", "blocks"):
        scales(pair, place, elements)[...] = rng.uniform(1, 2, shape)
    else:
        # Of float8e8m0 1/4 to 4, of float8e4m3fn 1 to 2.
        least, most = (125, 130) if pair.scale == "mxfp4" else (0x38, 0x41)
        scales(pair, place, elements)[...] = rng.integers(least, most, shape)


def scales(pair, place, elements):
    """The scales as an array: floats, or codes of the block formats."""
    shape = pair.scales(elements)
    dtype = numpy.float32 if pair.scale in ("tensor", "axis", "blocks") else numpy.uint8
    return place.scales.array(dtype, int(numpy.prod(shape, dtype=int))).reshape(shape)


def spread(values, scale, block):
    """Values and scales in shapes that broadcast."""
    if scale.ndim == 2:
        return values.reshape(*scale.shape, block), scale[..., None]
    return values, scale[:, None] if scale.ndim else scale


class Ours(libraries.Rust):
    """Ours, with the clock in Rust."""

    def __init__(self, peers, threads):
        self.function, self.threads = peers.scaled(), threads

    def arguments(self, pair, place, elements):
        addresses = place.source.address, place.target.address, place.scales.address
        kind = element_types.SCALES.index(pair.scale)
        columns = pair.shape(elements)[1]
        return pair.source.number, pair.target.number, kind, self.threads, *addresses, elements, columns

    def cast(self, pair, place, elements):
        if self.function(*self.arguments(pair, place, min(elements, 64)), 1) < 0:
            return None
        arguments = self.arguments(pair, place, elements)
        return lambda repeat: self.function(*arguments, repeat)

    def result(self, pair, place, elements):
        self.function(*self.arguments(pair, place, elements), 0)


class Numpy(libraries.Numpy):
    """numpy, with the types of ml_dtypes."""

    def call(self, pair, place, elements):
        if pair.scale in ("mxfp4", "nvfp4"):
            return None
        source, target = pair.source, pair.target
        shape = pair.shape(elements)
        x = (place.loose_source if self.loose(source) else place.source).array(libraries.numpy_type(source), elements)
        y = (place.loose_target if self.loose(target) else place.target).array(libraries.numpy_type(target), elements)
        factors = scales(pair, place, elements)
        x, factor = spread(x.reshape(shape), factors, element_types.BLOCK)
        y, _ = spread(y.reshape(shape), factors, element_types.BLOCK)
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


class Torch(libraries.Torch):
    """PyTorch on the processor."""

    def call(self, pair, place, elements):
        types = [data_type.torch and getattr(self.torch, data_type.torch) for data_type in (pair.source, pair.target)]
        if None in types or pair.scale in ("mxfp4", "nvfp4"):
            return None
        torch, shape = self.torch, pair.shape(elements)
        x, y = (
            torch.from_numpy(arena.array(numpy.uint8, data_type.bytes(elements))).view(kind).view(shape)
            for arena, data_type, kind in zip(
                (place.source, place.target), (pair.source, pair.target), types, strict=True
            )
        )
        factors = torch.from_numpy(scales(pair, place, elements))
        x, factor = spread(x, factors, element_types.BLOCK)
        y, _ = spread(y, factors, element_types.BLOCK)
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


class OnnxRuntime(libraries.OnnxRuntime):
    """onnxruntime: a model of one node, bound to the places."""

    def load(self, pair):
        source, target = pair.source, pair.target
        if pair.scale in ("mxfp4", "nvfp4"):
            return None
        make, float_ = self.onnx.helper, self.onnx.TensorProto.FLOAT
        ends = [
            make.make_tensor_value_info("x", source.number, ["rows", "columns"]),
            make.make_tensor_value_info("scale", float_, ["s"] * len(pair.scales(64))),
        ]
        attributes = {"tensor": {}, "axis": {"axis": 0}, "blocks": {"axis": 1, "block_size": element_types.BLOCK}}
        attributes = attributes[pair.scale]
        if pair.quantizes or target.name != "float":
            attributes["output_dtype"] = target.number
        operator = "QuantizeLinear" if pair.quantizes else "DequantizeLinear"
        y = make.make_tensor_value_info("y", target.number, ["rows", "columns"])
        graph = make.make_graph([make.make_node(operator, ["x", "scale"], ["y"], **attributes)], "scaled", ends, [y])
        return self.session_of(graph)

    def call(self, pair, place, elements):
        session = self.session(pair)
        if session is None:
            return None
        shape, factors = pair.shape(elements), pair.scales(elements)
        float_ = self.onnx.TensorProto.FLOAT
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, pair.source.number, shape, place.source.address)
        binding.bind_input("scale", "cpu", 0, float_, factors, place.scales.address)
        binding.bind_output("y", "cpu", 0, pair.target.number, shape, place.target.address)
        return lambda: session.run_with_iobinding(binding)


class Made(libraries.Python):
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
        block = {"tensor": shape, "axis": (1, shape[1]), "blocks": (1, element_types.BLOCK)}[pair.scale]
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


def load(names, threads):
    """Those of these names that have scaled casts."""
    packages = {
        "numpy": Numpy,
        "torch": lambda: Torch(threads),
        "torchao": lambda: TorchAo(threads),
        "onnxruntime": lambda: OnnxRuntime(threads),
        "gguf": Gguf,
    }
    return {name: packages[name]() for name in names if name in packages}
