"""Has Python all that the command can do with files, and the other way round? The command's own tests keep its list of
options up to date; each difference from it is explained here, or an error."""

import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest

import onnx_cast

LIST = Path(__file__).parents[3] / "crates" / "onnx-cast-cli" / "tests" / "data" / "options.txt"

FUNCTIONS = {
    "cast": onnx_cast.cast_file,
    "bitcast": onnx_cast.bit_cast_file,
    "dequantize": onnx_cast.dequantize_file,
    "quantize": onnx_cast.quantize_file,
    "transcode": onnx_cast.transcode_file,
    "convert": onnx_cast.convert_model,
    "fold": onnx_cast.fold,
    "record": onnx_cast.record_model,
    "upgrade": onnx_cast.upgrade_model,
    "info": onnx_cast.info,
    "diff": onnx_cast.diff,
    "report": onnx_cast.report,
    "check": onnx_cast.check,
}

#: Commands without a function of their own.
ELSEWHERE = {
    "run": "onnx_cast.backend evaluates models, from memory",
    "types": "onnx_cast.dtypes has the table",
    "explain": "it is drawn for people; onnx_cast.stats and dtypes have the figures",
    "bench": "it measures the library, which Python calls",
    "completions": "of a shell",
    "man": "of a shell",
}

#: What an option is called in Python, where it has another name, and why.
RENAMED = {
    "--from": ("from_", "`from` is a word of Python"),
    "--rule": ("rules", "a mapping has all of them"),
}

#: The parameters for what has no name on the command line.
POSITIONAL = {
    "cast FILE": ("src", "dst"),
    "bitcast FILE": ("src", "dst"),
    "dequantize FILE": ("src", "dst"),
    "quantize FILE": ("src", "dst"),
    "transcode FILE": ("src", "dst"),
    "convert IN.onnx": ("model",),
    "convert OUT.onnx": ("output",),
    "fold IN.onnx": ("src",),
    "fold OUT.onnx": ("dst",),
    "record IN.onnx": ("src",),
    "record OUT.onnx": ("dst",),
    "upgrade IN.onnx": ("src",),
    "upgrade OUT.onnx": ("dst",),
    "info FILE": ("path",),
    "diff A": ("a",),
    "diff B": ("b",),
    "report FILE": ("x",),
    "check FILE": ("path",),
}

#: Options of every command that are about printing.
PRINTING = {
    "--json": "results are objects",
    "--quiet": "nothing is printed",
    "--verbose": "nothing is printed",
    "--color": "nothing is printed",
}

#: What only the command has, and why.
ONLY_COMMAND = {
    "cast --out-dir": "a loop does that",
    "bitcast --out-dir": "a loop does that",
    "dequantize --out-dir": "a loop does that",
    "quantize --out-dir": "a loop does that",
    "transcode --out-dir": "a loop does that",
    "cast --in-format": "arrays and files, not pipes",
    "cast --out-format": "arrays and files, not pipes",
    "bitcast --in-format": "arrays and files, not pipes",
    "bitcast --out-format": "arrays and files, not pipes",
    "info --in-format": "arrays and files, not pipes",
    "diff --in-format": "arrays and files, not pipes",
    "report --in-format": "arrays and files, not pipes",
    "convert --html": "Converted has what the page draws",
    "report --top": "Report.text(top)",
    "check --threads": "headers are read by one thread",
    "report --html": "Report.save(path)",
    "convert --html": "the page is drawn for people; Converted has what it shows",
    "report --force": "Report.save(path, force=True)",
}

#: What only Python has, and why.
ONLY_PYTHON = {name: {"progress": "the command has a bar"} for name in FUNCTIONS if name != "check"} | {"check": {}}
for _name in ("cast", "dequantize", "quantize", "info", "diff", "convert", "record", "fold", "upgrade", "report"):
    ONLY_PYTHON[_name] |= {"base_dir": "a ModelProto tells no folder"}
for _name, _more in {"convert": ("tolerance", "max_runs"), "record": ()}.items():
    ONLY_PYTHON[_name] |= dict.fromkeys(("inputs", "seed", *_more), "the command has no runtime (python -m onnx_cast)")


def options():
    """The options of each command."""
    found = defaultdict(list)
    for line in LIST.read_text().splitlines():
        command, option = line.split(" ", 1)
        found[command].append(option)
    return found


def parameter(option):
    """The parameter that has an option's meaning, and whether it is turned round: `--no-x` is `x=False`."""
    if option in RENAMED:
        return RENAMED[option][0], False
    name = option.removeprefix("--")
    return name.removeprefix("no-").replace("-", "_"), name.startswith("no-")


def compare(command, given, function):
    """What differs, and the explanations that were needed."""
    parameters = inspect.signature(function).parameters
    told, differences, used = set(), [], set()
    for option in given:
        at = f"{command} {option}"
        if at in POSITIONAL:
            names, turned = POSITIONAL[at], False
        elif at in ONLY_COMMAND or option in PRINTING:
            names, turned = (), False
            name = parameter(option)[0]
            if name in parameters:
                differences.append(f"{at}: {function.__name__} has {name}, so that no explanation is needed")
        else:
            name, turned = parameter(option)
            names = (name,)
        used.update({at, option})
        for name in names:
            told.add(name)
            if name not in parameters:
                differences.append(f"{at}: {function.__name__} has no parameter {name}")
            elif turned and parameters[name].default is not True:
                differences.append(f"{at}: {function.__name__} has {name}={parameters[name].default} (want True)")
    for name in parameters:
        if name in ONLY_PYTHON[command]:
            used.add((command, name))
            if name in told:
                differences.append(f"{command}: it has --{name} itself, so that no explanation is needed")
        elif name not in told:
            differences.append(f"{command}: {name} of {function.__name__} is not an option of it")
    return differences, used


def test_functions_have_the_options_of_the_command():
    every, used = options(), set()
    differences = []
    for command, function in FUNCTIONS.items():
        found, needed = compare(command, every[command], function)
        differences += found
        used |= needed
    assert not differences, "\n".join(differences)
    explained = {*RENAMED, *POSITIONAL, *PRINTING, *ONLY_COMMAND}
    explained |= {(command, name) for command, names in ONLY_PYTHON.items() for name in names}
    assert not explained - used, "explanations that are no longer needed"


def test_every_command_has_a_function_or_a_reason():
    assert set(options()) == set(FUNCTIONS) | set(ELSEWHERE) and not set(FUNCTIONS) & set(ELSEWHERE)


def test_what_report_leaves_to_its_result_is_there():
    assert list(inspect.signature(onnx_cast.Report.text).parameters) == ["self", "top"]
    assert list(inspect.signature(onnx_cast.Report.save).parameters) == ["self", "path", "force"]


@pytest.mark.parametrize(
    "given, text",
    [
        (["--frobnicate"], "info --frobnicate: info has no parameter frobnicate"),
        (["--no-stats"], r"info --no-stats: info has stats=False \(want True\)"),
        (["--progress"], "info: it has --progress itself"),
        ([], "info: stats of info is not an option of it"),
    ],
)
def test_a_difference_is_told(given, text):
    found, _ = compare("info", given, onnx_cast.info)
    assert re.search(text, "\n".join(found)), found
