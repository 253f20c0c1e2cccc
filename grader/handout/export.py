"""Exports the grader to course systems that run it: a Gradescope autograder, a GitHub Classroom repository."""

import io
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course.seed import create_seed, read_seed
from grader.course.workspace import Workspace
from grader.handout import pack, project
from grader.paths import ROOT
from grader.problem import Problem

_PACKAGES = ("commandline", "grader", "harness", "problems", "solutions")
_ROOT_FILES = (project.PROJECT_FILE, project.LICENSE, "README.md")

_SETUP = """#!/usr/bin/env bash
# Runs once, when Gradescope builds the image. The image's own Python may be too old for the course.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends python3-pip
python3 -m pip install uv
uv venv --python 3.12 /autograder/venv
cd /autograder/source/course
uv pip install --python /autograder/venv/bin/python -e .
"""

# Gradescope runs it as root, in a container that may not create namespaces, so weak isolation is accepted; the report names it.
_RUN = """#!/usr/bin/env bash
# Runs for each submission.
set -uo pipefail
work=$(mktemp -d)
mkdir -p "$work/class"
cp -r /autograder/submission "$work/class/learner"
/autograder/venv/bin/grade batch "$work/class" --out "$work/results" --problems {problems} \\
    --seed-file /autograder/source/seed.txt --accept-isolation weak --jobs 1 --format gradescope > "$work/log" 2>&1
if [ -f "$work/results/gradescope/learner.json" ]; then
    cp "$work/results/gradescope/learner.json" /autograder/results/results.json
else
    # An internal error must not look like a grade.
    /autograder/venv/bin/python -c 'import json, sys; print(json.dumps(
        {{"score": 0, "output": "The autograder failed; please tell your teacher. " + sys.stdin.read()[-500:]}}))' \\
        < "$work/log" > /autograder/results/results.json
fi
rm -rf "$work"
"""

_WORKFLOW = """name: Autograding
on: [push, workflow_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  grade:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: pyproject.toml
      - run: python -m pip install -e .
{steps}
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
{results}
        with:
          runners: {runners}
"""
_STEP = """      - id: {id}
        continue-on-error: true
        run: echo "result=$(grade --workspace attempts problem {label} --format github)" >> "$GITHUB_OUTPUT\""""


def gradescope(archive: Path, problems: Sequence[Problem], seed_file: Path | None) -> None:
    """Writes the zip file of an autograder for these problems. Without a seed file, it gets a new random seed.

    Raises UsageError if the archive exists or cannot be written, or if the seed file is unusable.
    """
    if archive.exists():
        raise UsageError(f"{archive} already exists; choose a new file.")
    with tempfile.TemporaryDirectory() as folder:
        file = seed_file or Path(folder) / "seed.txt"
        if seed_file is None:
            create_seed(file)
        read_seed(file)  # only to raise UsageError if it is unusable
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as autograder:
            _add_script(autograder, "setup.sh", _SETUP)
            labels = ",".join(problem.label for problem in problems)
            _add_script(autograder, "run_autograder", _RUN.format(problems=labels))
            autograder.writestr("seed.txt", file.read_bytes())
            for name, content in _course():
                autograder.writestr(f"course/{name}", content)
    files.write(archive, data.getvalue())


def github(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    """Writes the repository of an assignment: the learners' bundle, a workspace, and the workflow. Yields lines for the terminal.

    Raises UsageError if the folder exists and is not empty, or cannot be written. It is created whole or not at all.
    """
    workflow = Path(".github", "workflows", "classroom.yml")
    with pack.new_folder(directory) as folder:
        yield from pack.fill(folder, problems)
        space = Workspace(folder / "attempts")
        for problem in problems:
            space.add(problem)
        files.write(folder / workflow, _workflow(problems))
    yield str(directory / workflow)


def _workflow(problems: Sequence[Problem]) -> str:
    """The workflow that grades each problem in a step of its own."""
    steps = {f"problem-{problem.label}": problem.label for problem in problems}
    return _WORKFLOW.format(
        steps="\n".join(_STEP.format(id=name, label=label) for name, label in steps.items()),
        results="\n".join(
            f"          {name.upper()}_RESULTS: ${{{{ steps.{name}.outputs.result }}}}" for name in steps
        ),
        runners=",".join(steps),
    )


def _course() -> Iterator[tuple[str, bytes]]:
    """The path and the content of each file of the course that a grader needs."""
    if project.in_repository():
        yield from ((name, (ROOT / name).read_bytes()) for name in _ROOT_FILES)
    else:
        yield project.PROJECT_FILE, project.project_file(_PACKAGES).encode()
        yield project.LICENSE, project.license_text().encode()
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _add_script(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o755 << 16
    archive.writestr(entry, text)
