#!/usr/bin/env python3
"""Is the C interface good for programs in C and C++?

In the folder of `scripts/release/dist.py`, which is given or made, compiles and runs the tests in C
(crates/onnx-cast-capi/tests/c) and the examples, as C99 and as C++17, without a warning, with the shared library and
with the static one; under valgrind, where the system has it; and by CMake. Compares the functions of the header with
those of the library. Needs a C and a C++ compiler and pkg-config.
"""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "crates" / "onnx-cast-capi" / "tests" / "c"
EXAMPLES = ROOT / "examples" / "c"
BENCH = ROOT / "crates" / "onnx-cast-capi" / "benches" / "overhead.c"
WARNINGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]
# What the header is for, besides C99: the test of its macros, which initialize structs, is compiled as each.
STANDARDS = ["c11", "c17", "c++11", "c++14", "c++17", "c++20"]
# The stripped library with all kernels: what a runtime would have to ship.
MOST_BYTES = 8 << 20
TYPES = """float8e4m3fn, 8 bits: 48 56 68 76 94
float8e4m3fnuz, 8 bits: 56 64 76 84 102
float8e5m2, 8 bits: 56 60 66 70 79
float8e5m2fnuz, 8 bits: 60 64 70 74 83
float4e2m1, 4 bits: 33 117 7
float8e8m0, 8 bits: 126 127 129 130 132
float6e2m3, 6 bits: 4 66 113 31
float6e3m2, 6 bits: 8 35 89 31
Cast-28 does not take complex64 (no version of Cast does)
"""
# What the examples print; the other programs print nothing.
PRINTED = {
    "float8": "1 -> 0x38\n-0.3 -> 0xaa\n1000 -> 0x7e\n0.001 -> 0x01\n",
    "plan": "1 1.5 3 -> 2^0 2^0 2^1\n10 15 30 -> 2^3 2^3 2^4\n",
    "strings": "0.1\n-2\n0.0000001\n1000000000000000\n",
    "types": TYPES,
}

# What the pieces of programs in the pages take for granted.
PROGRAM = """#include <onnx_cast.h>
#include <stdint.h>
#include <stdio.h>
enum { count = 4, rows = 2, columns = 2 };
int main(void) {
    const float weights[count] = {1.0f, -0.3f, 1000.0f, 0.001f}, scales[rows] = {0.1f, 10.0f};
    uint16_t halves[count];
    int8_t quantized[count];
    float restored[count];
    (void)weights, (void)scales, (void)halves, (void)quantized, (void)restored;
    BLOCK
    for (int i = 0; i < count; i++) printf(SHOW);
    return 0;
}
"""
# By the result of a piece: how it is printed, and what.
SHOWN = {
    "small": ('"%02x ", small[i]', "38 aa 7e 01 "),
    "halves": ('"%04x ", halves[i]', "3c00 b4cd 63d0 1419 "),
    "quantized": ('"%d %g ", quantized[i] + 0 * status, restored[i]', "10 1 -3 -0.3 100 1000 0 0 "),
}


def run(*command, **options):
    """Runs a command to its end and returns what it prints; its failure is ours."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        sys.exit(f"{shlex.join(words)}\n{done.stdout}failed with status {done.returncode}")
    return done.stdout


def laid_out():
    """The folder that `scripts/release/dist.py` makes."""
    return Path(run(sys.executable, ROOT / "scripts" / "release" / "dist.py").strip())


def check_library(folder, is_incremental):
    """The library is small, and has the functions that the header declares."""
    shared = next(path for path in (folder / "lib").iterdir() if path.is_symlink())
    size = shared.stat().st_size
    print(f"{shared.name}: {size} bytes")
    if is_incremental:
        print("left out: the size of the C library, because incremental builds make it larger (CI has others)")
    elif size > MOST_BYTES:
        sys.exit(f"{shared} takes {size} bytes (want {MOST_BYTES} at most)")
    library = ctypes.CDLL(shared)
    # The layout's name and the one that programs look for; what is linked here runs only if the two are the same.
    major = library.onnx_cast_abi_version() >> 16
    if shared.resolve().name not in (f"libonnx_cast.so.{major}", f"libonnx_cast.{major}.dylib"):
        sys.exit(f"{shared.resolve().name} has version {major} of the ABI")
    for name in ("RegisterCustomOps", "CreateEpFactories", "ReleaseEpFactory"):
        if not hasattr(library, name):
            sys.exit(f"the library has no {name} for onnxruntime")
    header = (folder / "include" / "onnx_cast.h").read_text()
    names = re.findall(r"^(?:const char \*|[a-z_0-9]+ \*?)(onnx_cast_\w+)\(", header, re.MULTILINE)
    missing = [name for name in names if not hasattr(library, name)]
    if missing or len(names) != header.count(");\n"):
        sys.exit(f"{len(names)} functions in the header; not in the library: {missing}")


def programs():
    """Each program's name, source and language."""
    yield "bench_overhead", BENCH, "c99"
    for source in sorted([*TESTS.glob("*.c"), *EXAMPLES.glob("*.c"), *EXAMPLES.glob("*.cpp")]):
        prefix = "test_" if source.parent == TESTS else ""
        yield prefix + source.stem, source, "c99" if source.suffix == ".c" else "c++17"


def check_programs(folder, scratch):
    """Every program, compiled with each library, runs as it should."""
    env = os.environ | {"PKG_CONFIG_PATH": str(folder / "lib" / "pkgconfig")}
    asked = lambda *options: shlex.split(run("pkg-config", *options, "onnx_cast", env=env))
    others = [word for word in asked("--static", "--libs-only-l") if word != "-lonnx_cast"]
    flags = {
        "shared": [*asked("--cflags", "--libs"), f"-Wl,-rpath,{folder / 'lib'}"],
        "static": [*asked("--cflags"), folder / "lib" / "libonnx_cast.a", *others],
    }
    valgrind = shutil.which("valgrind")
    # Where valgrind is missing, the compiler's own sanitizers see the caller's memory and leaks, though not the
    # library's.
    sanitizers = [] if valgrind else ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    if not valgrind:
        print("valgrind is missing: the programs run under the compiler's sanitizers")
    for name, source, language in programs():
        arguments = ["10"] if name == "bench_overhead" else []
        compiler = os.environ.get("CC", "cc") if language == "c99" else os.environ.get("CXX", "c++")
        posix = name in ("test_threads", "test_fork")
        threads = ["-D_POSIX_C_SOURCE=200809L", "-pthread"] if posix else []
        for kind, libraries in flags.items():
            program = scratch / f"{name}_{kind}"
            options = [f"-std={language}", *WARNINGS, *threads, *sanitizers]
            run(*shlex.split(compiler), *options, source, "-o", program, *libraries)
            check_output(name, run(program, *arguments))
        if valgrind:
            # What threads that live as long as the program still have is not a leak.
            leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
            # A child does not have the threads of its parent, and so loses what only they knew of.
            leaks = [] if name == "test_fork" else leaks
            shared = scratch / f"{name}_shared"
            watched = [valgrind, "--quiet", "--error-exitcode=9", "--fair-sched=yes", *leaks, shared]
            check_output(name, run(*watched, *arguments))
        if name == "test_init":
            check_standards(source, flags["shared"], scratch)
        # A program in C is one in C++ too, as far as the header goes.
        if name == "test_types":
            check = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", *WARNINGS, "-x", "c++", "-fsyntax-only"]
            run(*check, folder / "include" / "onnx_cast.h", "-Wno-pragma-once-outside-header")
        print(f"{name}: as it should", flush=True)


def check_standards(source, libraries, scratch):
    """A test in C is one in C++, of each version, and the header gives no warning in any."""
    for standard in STANDARDS:
        compilers = ("CXX", "c++") if "++" in standard else ("CC", "cc")
        language = ["-x", "c++"] if "++" in standard else []
        nulls = ["-Wzero-as-null-pointer-constant"] if language else []
        warnings = [*WARNINGS, "-Wmissing-field-initializers", *nulls]
        program = scratch / f"{source.stem}_{standard}"
        compiler = shlex.split(os.environ.get(*compilers))
        run(*compiler, *language, f"-std={standard}", *warnings, source, "-x", "none", "-o", program, *libraries)
        check_output(source.stem, run(program))


def check_output(name, printed):
    want = PRINTED.get(name, "")
    # The types of a later version of ONNX are more lines than these.
    if name == "types":
        printed = "".join(line for line in printed.splitlines(keepends=True) if line in want.splitlines(keepends=True))
    # What a measurement prints is its own; here it is only seen to run.
    if printed != want and not name.startswith("bench_"):
        sys.exit(f"{name} prints\n{printed}(want\n{want})")


def check_pages(folder, scratch):
    """The programs in the pages are the examples, and the pieces of programs run in the place of this one."""
    whole = {path.read_text() for path in EXAMPLES.glob("*.c")}
    seen, pieces = 0, 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"^```c\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            if "/* not run by the tests: " in block:
                continue
            seen += 1
            if "int main(" in block:
                if block not in whole:
                    sys.exit(f"{page}: a program is none of examples/c:\n{block}")
                continue
            (shown,) = [printed for name, printed in SHOWN.items() if f"{name}[4]" in block or f", {name}, " in block]
            pieces += 1
            source, program = scratch / f"piece{pieces}.c", scratch / f"piece{pieces}"
            source.write_text(PROGRAM.replace("    BLOCK\n", textwrap.indent(block, "    ")).replace("SHOW", shown[0]))
            compiler = shlex.split(os.environ.get("CC", "cc"))
            libraries = [f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lonnx_cast", f"-Wl,-rpath,{folder / 'lib'}"]
            run(*compiler, "-std=c99", "-O1", "-Wall", "-Werror", source, "-o", program, *libraries)
            if (printed := run(program)) != shown[1]:
                sys.exit(f"{page}: a piece of a program prints\n{printed}(want\n{shown[1]})\n{block}")
    if seen != len(SHOWN) + 1:
        sys.exit(f"{seen} programs and pieces of programs in the pages (want {len(SHOWN) + 1})")
    print(f"the pages: {seen - pieces} program, {pieces} pieces")


def check_cmake(folder, scratch):
    """A project in CMake finds the library, and its programs run."""
    cmake = Path(sys.executable).parent / "cmake"
    build = scratch / "build"
    examples = folder / "share" / "doc" / "onnx-cast" / "examples"
    run(cmake, "-S", examples, "-B", build, f"-DCMAKE_PREFIX_PATH={folder}")
    run(cmake, "--build", build)
    for name, want in PRINTED.items():
        for program in (name, f"{name}_static"):
            check_output(name, run(build / program))
    print("CMake: as it should")


def main():
    is_given = len(sys.argv) > 1
    folder = Path(sys.argv[1]).resolve() if is_given else laid_out()
    # The test run gives the folder of its own build, which is incremental outside of CI; a release never is.
    check_library(folder, is_given and os.environ.get("CARGO_INCREMENTAL") != "0")
    with tempfile.TemporaryDirectory() as scratch:
        check_pages(folder, Path(scratch))
        check_programs(folder, Path(scratch))
        check_cmake(folder, Path(scratch))


if __name__ == "__main__":
    main()
