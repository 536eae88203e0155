"""Which stages of the test run need not run again: those that passed here with the files that there are now."""

import hashlib
import json
import re
import subprocess
import sys

from stages import ROOT

PASSED = ROOT / ".cache" / "passed"


class Passed:
    """What stages passed with, by a hash of what they read: the command, the compiler, and each file of the checkout
    that they do not name as unread. Outside of a checkout, no stage has passed."""

    def __init__(self):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True)
        self.knows_files = listed.returncode == 0
        self.tools = subprocess.run(["rustc", "-vV"], capture_output=True).stdout.decode() + sys.version
        names = sorted(set(listed.stdout.decode(errors="surrogateescape").split("\0")) - {""})
        self.files = {name: digest((ROOT / name).read_bytes()) for name in names if (ROOT / name).is_file()}

    def hash_of(self, stage):
        words = [*map(str, stage.command), *(f"{key}={value}" for key, value in sorted(stage.env.items())), self.tools]
        read = [f"{name} {value}" for name, value in self.files.items() if not is_within(name, stage.unread)]
        return digest("\n".join([*words, *read]).encode(errors="surrogateescape"))

    def left_out(self, stage, is_needed):
        """What the stage left out when it passed with these files, as `test.left_out` gives it; None where it has to
        run. A stage that others need is skipped only where the files that it makes are there."""
        makes = [ROOT / path for path in stage.makes]
        if not self.knows_files or (is_needed and not makes) or not all(path.exists() for path in makes):
            return None
        try:
            kept = json.loads(mark(stage).read_text())
        except (OSError, ValueError):
            return None
        return [tuple(part) for part in kept["left_out"]] if kept["hash"] == self.hash_of(stage) else None

    def keep(self, stage, left_out):
        if self.knows_files:
            PASSED.mkdir(parents=True, exist_ok=True)
            mark(stage).write_text(json.dumps({"hash": self.hash_of(stage), "left_out": left_out}))


def digest(data):
    return hashlib.sha256(data).hexdigest()


def is_within(name, places):
    return any(name == place or name.startswith(place + "/") for place in places)


def mark(stage):
    return PASSED / f"{re.sub(r'[^A-Za-z0-9]+', '-', stage.name)}.json"
