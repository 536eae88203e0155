"""What the benchmarks share: medians of works in turn, the time and memory of processes, tables, and where figures are
from."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

RECORDS = Path(__file__).resolve().parent.parent / "records"
# A process of its own, small as it is, since the memory of what starts a command counts in its peak memory.
MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
clock, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([clock, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.stdout]))
sys.exit(done.returncode)
"""


class Run(NamedTuple):
    """Seconds of the clock and of the processor, the peak memory in MiB, and what was printed."""

    clock: float
    processor: float
    memory: float
    told: str


def process(arguments, folder=None, status=0, **options):
    """Runs a process to its end. None where its status is another one."""
    wrapped = [sys.executable, "-S", "-c", MEASURE, *map(str, arguments)]
    done = subprocess.run(wrapped, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)
    return None if done.returncode != status else Run(*json.loads(done.stdout))


def seconds(work):
    start = time.perf_counter()
    result = work()
    taken = time.perf_counter() - start
    del result
    return taken


def in_turn(works, rounds, clock=seconds, warm=True):
    """The median of what the clock says of each of the named works, each done once a round; of several numbers each."""
    if warm:
        for work in works.values():
            clock(work)
    taken = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(clock(work))
    return {name: median(times) for name, times in taken.items()}


def median(times):
    if isinstance(times[0], tuple):
        return tuple(map(statistics.median, zip(*times, strict=True)))
    return statistics.median(times)


def table(header, rows):
    """Lines of a Markdown table."""
    return ["| " + " | ".join(map(str, row)) + " |" for row in (header, ["---"] * len(header), *rows)]


def machine():
    model = "an unknown processor"
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        model = facts.get("model name", model)
        if "cpu family" in facts:
            model += f" (family {facts['cpu family']}, model {facts['model']})"
    return f"{model}, {os.cpu_count()} cores"


def about(command, **versions):
    """The day, the machine, the command and the packages of a run."""
    return f"{date.today()}, {machine()}, `{command}`; " + ", ".join(map(" ".join, versions.items())) + "."


def record(path, title, text, lines):
    """Appends a section to a record: its title with the day, the text with the machine and the commit, and the lines."""
    git = ["git", "-C", Path(__file__).parent, "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    with Path(path).open("a") as out:
        print(f"\n## {date.today()}{title}\n\n{text}, on {machine()}, at commit {commit}.\n", *lines, sep="\n", file=out)


def rewrite(name, lines):
    """Writes the figures of a record, below what it says of them: its text up to the first section or day."""
    path = RECORDS / name
    head = re.split(r"(?m)^(?=## |\d{4}-\d\d-\d\d)", path.read_text())[0]
    path.write_text(head + "\n".join(lines).rstrip("\n") + "\n")
