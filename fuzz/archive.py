#!/usr/bin/env python3
"""The corpus: an archive of inputs for each target, `fuzz/corpus/TARGET.zip`.

An archive depends on its inputs alone: they are sorted by name, carry no times, and are not compressed, as git does
that. An input that libFuzzer made is named by the SHA-1 of its bytes; one that was found by hand has a name of its own
and is kept by --minimise. `fuzz/targets/tests/replay.rs` reads the archives.

Usage: archive.py unpack TARGET FOLDER    writes the inputs into a folder
       archive.py add TARGET FILE ...     adds inputs under the names of their files
"""

import hashlib
import sys
import zipfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def path_of(target: str) -> Path:
    return CORPUS / f"{target}.zip"


def short(name: str, data: bytes) -> str:
    """The name in the archive. 16 digits of a hash tell inputs apart, and each name stands in the archive twice."""
    sha1 = hashlib.sha1(data).hexdigest()
    return sha1[:16] if name == sha1 else name


def is_named(name: str, data: bytes) -> bool:
    """Whether somebody gave the input its name."""
    return name != hashlib.sha1(data).hexdigest()[:16]


def read(target: str) -> dict[str, bytes]:
    """The inputs of a target by name, in the order of the archive."""
    with zipfile.ZipFile(path_of(target)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def unpack(target: str, folder: Path) -> None:
    """Writes the inputs of a target into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in read(target).items():
        (folder / name).write_bytes(data)


def pack(target: str, inputs: dict[str, bytes]) -> None:
    """Replaces the archive of a target."""
    with zipfile.ZipFile(path_of(target), "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(inputs.items()):
            entry = zipfile.ZipInfo(name)  # of 1980-01-01
            # The same on every system.
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, data)


def main() -> None:
    match sys.argv[1:]:
        case ["unpack", target, folder] if path_of(target).is_file():
            unpack(target, Path(folder))
        case ["add", target, *files] if files:
            contents = [(Path(file).name, Path(file).read_bytes()) for file in files]
            known = read(target) if path_of(target).is_file() else {}
            pack(target, known | {short(name, data): data for name, data in contents})
        case _:
            targets = ", ".join(sorted(path.stem for path in CORPUS.glob("*.zip")))
            sys.exit(f"{__doc__}\nTargets: {targets}")


if __name__ == "__main__":
    main()
