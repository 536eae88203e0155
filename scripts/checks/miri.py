#!/usr/bin/env python3
"""The kernels' walk over a tensor, in Miri: tiles, steps, lines past the caches and padding, over lanes in plain Rust
and from memory that nothing initialised. Miri reports a read of such memory, an access outside an allocation, and a
reference that another one invalidates.

Miri is a component of a nightly Rust, which scripts/setup.py installs where rustup is; without it, this is left out. It
interprets, so the tests take few pairs of types and lengths here (`cfg!(miri)`): one or two minutes. MIRI_TOOLCHAIN
names another toolchain than nightly. `scripts/proofs/sanitizers.sh miri` runs these tests and the slow ones.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from setup import MIRI_TOOLCHAIN, has_miri  # noqa: E402

# Unit tests of onnx-cast: the walk, with steps that copy, and steps of each source type.
TESTS = ["a_walk_writes_its_target_alone_and_reads_what_is_written", "every_pair_is_the_scalar_cast"]


def main():
    if not has_miri():
        print(f"left out: the walk in Miri: no {MIRI_TOOLCHAIN} Rust with the components miri and rust-src (rustup)")
        return
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "miri"
    env = os.environ | {"CARGO_TARGET_DIR": str(target), "MIRIFLAGS": "-Zmiri-disable-isolation"}
    # One cargo, and the compiler that Miri is of: rustup chooses both.
    for variable in ("RUSTC", "RUSTFLAGS", "RUSTC_WRAPPER", "RUSTUP_TOOLCHAIN"):
        env.pop(variable, None)
    # Without the vector backends, which Miri does not run, and which take most of the time to compile.
    plain = "profile.dev.package.onnx-cast.opt-level=0"
    command = ["cargo", f"+{MIRI_TOOLCHAIN}", "miri", "test", "--locked", "--config", plain]
    command += ["-p", "onnx-cast", "--lib", "--", *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    if done.returncode:
        sys.exit(f"miri: status {done.returncode}")
    # A filter that matches no test passes too.
    if f"{len(TESTS)} passed" not in done.stdout:
        sys.exit(f"miri: expected {len(TESTS)} tests: {', '.join(TESTS)}")


if __name__ == "__main__":
    main()
