"""The quantized checkpoints of crates/testkit/data/checkpoints, one folder for each layout, unpacked until the tests end."""

import tempfile
import zipfile
from pathlib import Path

_ARCHIVES = Path(__file__).parents[3] / "crates" / "testkit" / "data" / "checkpoints"
_FOLDER = tempfile.TemporaryDirectory(prefix="onnx-cast-checkpoints-")

for _path in sorted(_ARCHIVES.glob("*.zip")):
    with zipfile.ZipFile(_path) as _archive:
        _archive.extractall(_FOLDER.name)

CHECKPOINTS = Path(_FOLDER.name)
