#!/usr/bin/env python3
"""The stored checkpoints, crates/testkit/data/checkpoints/*.zip: a folder for each layout. The beginning of its name
tells the archive, so that none is larger than a megabyte.

An archive depends on its files alone: they are sorted by name and carry no times. `testkit::checkpoints` and the Python
tests unpack all archives into one folder.

Usage: checkpoint_archives.py unpack FOLDER    writes every checkpoint into a folder
       checkpoint_archives.py add FOLDER       replaces or adds the checkpoints that are folders of this one
"""

import sys
import zipfile
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "checkpoints"


def unpack(folder: Path) -> None:
    """Writes every checkpoint into a folder."""
    archives = sorted(ARCHIVES.glob("*.zip"))
    assert archives, f"{ARCHIVES}: no archives"
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)


#: What names of folders begin with, by archive.
BEGINNINGS = {
    "releases.zip": ("mistral-", "openai-", "joined-", "static-", "ct-w8a8-static", "deepseek-v4"),
    "compressed-tensors.zip": ("ct-",),
    "torch.zip": ("hqq-", "torchao-", "quanto-", "bitnet-", "gemma-"),
    "integers.zip": ("gptq", "awq", "auto-round", "quark-int", "quark-uint", "modelopt-int"),
    "platforms.zip": ("comfy-", "bnb-", "mlx-"),
}


def archive_of(checkpoint: str) -> Path:
    found = (archive for archive, beginnings in BEGINNINGS.items() if checkpoint.startswith(beginnings))
    return ARCHIVES / next(found, "others.zip")


def read(path: Path) -> dict[str, bytes]:
    """The files of an archive by name; none where there is no archive yet."""
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def add(folder: Path) -> None:
    """Replaces the checkpoints that are folders of this one, and adds those that are new."""
    archives: dict[Path, list[Path]] = {}
    for checkpoint in sorted(path for path in folder.iterdir() if path.is_dir()):
        archives.setdefault(archive_of(checkpoint.name), []).append(checkpoint)
    for path, checkpoints in archives.items():
        replaced = tuple(f"{checkpoint.name}/" for checkpoint in checkpoints)
        files = {name: data for name, data in read(path).items() if not name.startswith(replaced)}
        for checkpoint in checkpoints:
            files |= {f"{checkpoint.name}/{file.name}": file.read_bytes() for file in checkpoint.iterdir()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, data in sorted(files.items()):
                entry = zipfile.ZipInfo(name)  # of 1980-01-01
                # The same on every system.
                entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
                archive.writestr(entry, data)


def main() -> None:
    match sys.argv[1:]:
        case ["unpack", folder]:
            unpack(Path(folder))
        case ["add", folder]:
            add(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
