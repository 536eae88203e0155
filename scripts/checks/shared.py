"""What the checks share: the command that they run, what they count, and work in several processes.

The command is the first argument of a check that is no option, else the one that ONNX_CAST_COMMAND names (the test run
sets it), else the release build.
"""

import collections
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
GIVEN = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
COMMAND = Path(GIVEN[0] if GIVEN else os.environ.get("ONNX_CAST_COMMAND", BUILT)).resolve()
CHECKPOINT = ROOT / ".cache" / "checkpoints" / "all-MiniLM-L6-v2.safetensors"
# Everything that a check has, not only what fits into a test run.
ALL = "--all" in sys.argv[1:]
WORKERS = 2
# The jobs of the command that write a file.
WRITERS = {"cast", "bitcast", "quantize", "dequantize", "transcode", "fold", "upgrade", "convert", "record", "run"}
# What a check has compared, by its kinds, and what it found wrong.
counts, problems = collections.Counter(), []


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def need(*paths):
    """Fails unless the files are there that the test run prepares."""
    for path in paths:
        if not path.exists():
            fail(f"{path} is missing: run `bash scripts/test.sh`")


def line(*arguments):
    """The command with arguments. Outputs follow one another under one path here; hence `--force`."""
    arguments = [str(argument) for argument in arguments]
    return [COMMAND, *arguments, *(["--force"] if arguments and arguments[0] in WRITERS else [])]


def run(*arguments, **options):
    """Runs the command with arguments; a panic, or a status other than that of an error, fails the check."""
    done = subprocess.run(line(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode not in (0, 1, 2) or "panicked" in done.stderr:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return done


def command(*arguments):
    """Runs the command, which must do what it is asked for."""
    done = run(*arguments)
    if done.returncode:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return done


def refused(*arguments, says):
    """The command refuses, and names what it should."""
    done, says = run(*arguments), [says] if isinstance(says, str) else says
    if done.returncode != 2 or not all(part in done.stderr for part in says):
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}, want {says}: {done.stderr}")


def in_processes(function, tasks):
    """What a function gives for each task, in the order of the tasks; a failure of one ends all."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        futures = [pool.submit(function, *task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def in_folder(check, *arguments):
    """What a check gives in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return check(Path(folder), *arguments)


def problem(text):
    """Goes on after a failure, to show more of them."""
    problems.append(text)
    print("FAIL", text[:700], flush=True)


def _share(check, *arguments):
    counts.clear(), problems.clear()
    in_folder(check, *arguments)
    return counts.copy(), [*problems]


def in_shares(tasks):
    """Runs checks, given with their arguments, in several processes, each in a folder of its own. `counts` and
    `problems` have then what all of them found."""
    for some, failures in in_processes(_share, tasks):
        counts.update(some), problems.extend(failures)


def finish():
    """Prints what was counted; fails where something was wrong."""
    print(*(f"  {name}: {count}" for name, count in sorted(counts.items())), sep="\n")
    if problems:
        fail(f"{len(problems)} failures, as {problems[0][:300]}")
