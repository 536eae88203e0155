"""What the checks share: the command that they run, and work in several processes.

The command is the first argument of a check that is no option, else the one that ONNX_CAST_COMMAND names (the test run
sets it), else the release build.
"""

import concurrent.futures
import multiprocessing
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
GIVEN = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
COMMAND = Path(GIVEN[0] if GIVEN else os.environ.get("ONNX_CAST_COMMAND", BUILT)).resolve()
# Everything that a check has, not only what fits into a test run.
ALL = "--all" in sys.argv[1:]
WORKERS = 2


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


# The jobs of the command that write a file.
WRITERS = {"cast", "bitcast", "quantize", "dequantize", "transcode", "fold", "upgrade", "convert", "record"}


def line(*arguments):
    """The command with arguments. Outputs follow one another under one path here, which the command would refuse to
    replace where it looks like another input; hence `--force`."""
    arguments = [str(argument) for argument in arguments]
    return [COMMAND, *arguments, *(["--force"] if arguments and arguments[0] in WRITERS else [])]
