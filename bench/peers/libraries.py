"""Each library behind one face: `cast(pair, place, elements)` gives a function that casts once between two places,
or, for those in Rust, that casts so often and tells the seconds. A pair that a library lacks gives None.

Outputs are made beforehand wherever the interface has a way to."""

import itertools
import time

import ml_dtypes
import numpy


class Place:
    """Where sources lie and results go, once as ONNX packs them and once with a byte to each element; and scales."""

    def __init__(self, source, target, loose_source, loose_target, scales):
        self.source, self.target = source, target
        self.loose_source, self.loose_target = loose_source, loose_target
        self.scales = scales


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

    def loose(self, data_type):
        return False

    def cast(self, pair, place, elements):
        source, target = pair.source, pair.target

        def seconds(repeat):
            addresses = place.source.address, place.target.address
            return self.function(source.number, target.number, self.threads, *addresses, elements, repeat)

        # A small trial shows whether the library has the pair.
        few = min(elements, 64)
        addresses = place.source.address, place.target.address
        has = self.function(source.number, target.number, self.threads, *addresses, few, 1) >= 0
        return seconds if has else None

    def result(self, pair, place, elements):
        """Casts once and leaves the result in place."""
        addresses = place.source.address, place.target.address
        self.function(pair.source.number, pair.target.number, self.threads, *addresses, elements, 0)


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
        return lambda: numpy.copyto(y, x, casting="unsafe")


class Torch(Python):
    """PyTorch on the processor."""

    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch

    def call(self, pair, place, elements):
        types = [data_type.torch and getattr(self.torch, data_type.torch) for data_type in (pair.source, pair.target)]
        if None in types:
            return None
        x, y = (
            self.torch.from_numpy(arena.array(numpy.uint8, data_type.bytes(elements))).view(kind)
            for arena, data_type, kind in zip(
                (place.source, place.target), (pair.source, pair.target), types, strict=True
            )
        )
        return lambda: y.copy_(x)


class OnnxRuntime(Python):
    """onnxruntime: a model of one Cast, bound to the places."""

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
        source, target = pair.source, pair.target
        make = self.onnx.helper
        x, y = (
            make.make_tensor_value_info("x", source.number, ["n"]),
            make.make_tensor_value_info("y", target.number, ["n"]),
        )
        graph = make.make_graph([make.make_node("Cast", ["x"], ["y"], to=target.number)], "cast", [x], [y])
        return self.session_of(graph)

    def session_of(self, graph):
        """A session of a graph, or None where the package lacks it."""
        make = self.onnx.helper
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
        binding.bind_input("x", "cpu", 0, pair.source.number, [elements], place.source.address)
        binding.bind_output("y", "cpu", 0, pair.target.number, [elements], place.target.address)
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
        if source.numkong is None or target.numkong is None:
            return None
        tensor, astype = self.numkong.from_pointer, self.numkong.astype
        from_arena = place.loose_source if self.loose(source) else place.source
        to_arena = place.loose_target if self.loose(target) else place.target
        x = tensor(from_arena.address, elements, source.numkong, owner=from_arena.bytes)
        y = tensor(to_arena.address, elements, target.numkong, owner=to_arena.bytes)
        name = target.numkong
        return lambda: astype(x, name, out=y)


def load(names, peers, threads):
    """The libraries of these names."""
    rust = ("half", "candle", "arrow")
    packages = {
        "numpy": Numpy,
        "torch": lambda: Torch(threads),
        "onnxruntime": lambda: OnnxRuntime(threads),
        "numkong": NumKong,
    }
    names = [name for name in names if name in rust or name in packages]
    return {name: Rust(peers, name, threads) if name in rust else packages[name]() for name in names}
