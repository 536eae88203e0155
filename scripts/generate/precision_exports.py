#!/usr/bin/env python3
"""Writes crates/testkit/data/exports.zip: small networks as both exporters of torch write them, parts of which need
more digits or range than float16 or bfloat16 have, with inputs (`scripts/checks/precision.py`).

Needs torch, onnx and onnxscript, in an environment of their own. What tells where the exporter ran is left out.
"""

import io
import math
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

OUT = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "exports.zip"


class Timesteps(nn.Module):
    """The times of a diffusion model as diffusers embeds them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 8))

    def forward(self, times):
        exponent = -math.log(10000) * torch.arange(16, dtype=torch.float32) / 16
        angles = times[:, None].float() * torch.exp(exponent)[None]
        return self.layers(torch.cat([torch.cos(angles), torch.sin(angles)], -1))


class Fourier(nn.Module):
    """Random Fourier features of coordinates (Tancik and others, 2020)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(2, 16) * 10)
        self.layers = nn.Sequential(nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 3))

    def forward(self, places):
        angles = 2 * math.pi * places @ self.frequencies
        return self.layers(torch.cat([angles.sin(), angles.cos()], -1))


class Radiance(nn.Module):
    """A radiance field: coordinates times powers of two."""

    def __init__(self):
        super().__init__()
        self.register_buffer("octaves", 2.0 ** torch.arange(10) * math.pi)
        self.layers = nn.Sequential(nn.Linear(63, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, places):
        angles = (places[..., None] * self.octaves).flatten(-2)
        color, density = self.layers(torch.cat([places, angles.sin(), angles.cos()], -1)).split([3, 1], -1)
        return torch.cat([torch.sigmoid(color), F.softplus(density)], -1)


class Transformer(nn.Module):
    """A spatial transformer: a network turns a picture."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(1, 4, 5, 4), nn.ReLU(), nn.Conv2d(4, 4, 3, 3), nn.ReLU(), nn.Flatten())
        self.turn = nn.Linear(100, 6)
        self.turn.weight.data *= 0.1
        self.turn.bias.data = torch.tensor([1, 0, 0, 0, 1, 0.0])
        self.read = nn.Conv2d(1, 4, 3)

    def forward(self, picture):
        turned = F.affine_grid(self.turn(self.see(picture)).view(-1, 2, 3), picture.shape, align_corners=False)
        return self.read(F.grid_sample(picture, turned, align_corners=False))


class Warp(nn.Module):
    """Optical flow: a picture is sampled at pixels that a network moves."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))

    def forward(self, before, after):
        height, width = before.shape[-2:]
        rows, columns = torch.meshgrid(torch.arange(height, dtype=torch.float32), torch.arange(width, dtype=torch.float32), indexing="ij")
        places = torch.stack([columns, rows])[None] + self.layers(torch.cat([before, after], 1))
        grid = torch.stack([2 * places[:, 0] / (width - 1) - 1, 2 * places[:, 1] / (height - 1) - 1], -1)
        return F.grid_sample(after, grid, align_corners=True)


class Losses(nn.Module):
    """Logarithms of probabilities, and what is computed by exponentials."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 8)

    def forward(self, x):
        scores = 12 * torch.tanh(self.layer(x))
        chance = torch.sigmoid(scores)
        ratio = torch.exp(scores * 3) / (1 + torch.exp(scores * 3))
        return F.logsigmoid(scores), torch.log1p(-chance), torch.log(torch.softmax(scores, -1)), torch.log(chance * chance), ratio


class Steps(nn.Module):
    """A differential equation, by many small steps: a loop, as TorchScript writes it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, rounds: int):
        state = x
        for _ in range(rounds):
            state = state + 0.002 * torch.tanh(self.layer(state))
        return state


class Moments(nn.Module):
    """A normalization by E[x^2] - E[x]^2, as flax writes it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        x = self.layer(x) + 5
        mean = x.mean(-1, keepdim=True)
        variance = torch.clamp((x * x).mean(-1, keepdim=True) - mean * mean, min=0)
        return (x - mean) * torch.rsqrt(variance + 1e-5)


def networks():
    """Each network with its inputs."""
    picture = torch.randn(1, 1, 64, 64)
    yield Timesteps(), [torch.rand(32) * 1000]
    yield Fourier(), [torch.rand(64, 2) * 4]
    yield Radiance(), [torch.rand(64, 3)]
    yield Transformer(), [picture]
    yield Warp(), [picture, torch.randn(1, 1, 64, 64)]
    yield Losses(), [torch.randn(64, 16) * 3]
    yield Steps(), [torch.randn(4, 8), 3000]
    yield Moments(), [torch.randn(16, 32)]


def plain(path):
    """The bytes of a model, without what tells where it was written."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:]
    for one in [model.graph, *model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output, *model.graph.value_info]:
        one.ClearField("doc_string")
        del one.metadata_props[:]
    for function in model.functions:
        function.ClearField("doc_string")
        del function.metadata_props[:]
        for node in function.node:
            node.ClearField("doc_string")
            del node.metadata_props[:]
    model.ClearField("doc_string")
    return model.SerializeToString(deterministic=True)


def exported(network, inputs, names, folder):
    """The network by each exporter that takes it."""
    path = folder / "model.onnx"
    is_loop = isinstance(network, Steps)
    scripted = torch.jit.script(network) if is_loop else network
    torch.onnx.export(scripted, tuple(inputs), path, dynamo=False, input_names=names, opset_version=20)
    yield "script", plain(path)
    if not is_loop:
        torch.onnx.export(network, tuple(inputs), path, dynamo=True, input_names=names, external_data=False, verbose=False)
        yield "dynamo", plain(path)


def main():
    torch.manual_seed(19)
    torch.set_num_threads(1)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:

        def write(name, data):
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)

        for network, inputs in networks():
            name = type(network).__name__.lower()
            names = [f"x{index}" for index in range(len(inputs))]
            for exporter, data in exported(network.eval(), inputs, names, Path(folder)):
                write(f"{name}_{exporter}.onnx", data)
            held = io.BytesIO()
            np.savez_compressed(held, **{one: np.asarray(array) for one, array in zip(names, inputs, strict=True)})
            write(f"{name}.npz", held.getvalue())
    OUT.write_bytes(whole.getvalue())


if __name__ == "__main__":
    sys.exit(main())
