"""The grader, packed for a course system that runs it: a Gradescope autograder, a GitHub Classroom repository."""

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from commandline.errors import UsageError
from grader.course.seed import create_seed, read_seed
from grader.handout import pack
from grader.paths import ROOT
from grader.problem import Problem

_PACKAGES = ("commandline", "grader", "harness", "problems", "solutions")
_WITH_IT = ("pyproject.toml", "README.md", "LICENSE")

_SETUP = """#!/usr/bin/env bash
# Runs once, when Gradescope builds the image; its own Python may be older than the course needs.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends python3-pip
python3 -m pip install uv
uv venv --python 3.12 /autograder/venv
cd /autograder/source/course
uv pip install --python /autograder/venv/bin/python -e .
"""

# Gradescope runs it as root in a container that has none of the rights that namespaces need: the report says what was measured.
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
    # Our own fault is told as such, not as a mark.
    /autograder/venv/bin/python -c 'import json, sys; print(json.dumps(
        {{"score": 0, "output": "The autograder failed; tell your teacher. " + sys.stdin.read()[-500:]}}))' \\
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
    """Writes the zip file of an autograder for these problems. Raises UsageError."""
    if archive.exists():
        raise UsageError(f"{archive} is there already; name a new file.")
    with tempfile.TemporaryDirectory() as folder:
        file = seed_file or Path(folder) / "seed.txt"
        if seed_file is None:
            create_seed(file)
        read_seed(file)  # raises UsageError if it is unusable
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
            _script(made, "setup.sh", _SETUP)
            _script(made, "run_autograder", _RUN.format(problems=",".join(problem.label for problem in problems)))
            made.writestr("seed.txt", file.read_bytes())
            for path in _course():
                made.write(path, Path("course") / path.relative_to(ROOT))
    try:
        archive.write_bytes(data.getvalue())
    except OSError as error:
        raise UsageError(f"{archive} cannot be written: {error.strerror}.") from None


def github(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    """Writes the repository of an assignment: the learners' bundle, its workspace, and the workflow. Raises UsageError."""
    from grader.course.workspace import Workspace

    yield from pack.pack(directory, problems)
    space = Workspace(directory / "attempts")
    for problem in problems:
        space.add(problem)
    rows = [(f"problem-{problem.label}", problem.label) for problem in problems]
    workflow = directory / ".github" / "workflows" / "classroom.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(
        _WORKFLOW.format(
            steps="\n".join(_STEP.format(id=name, label=label) for name, label in rows),
            results="\n".join(
                f"          {name.upper()}_RESULTS: ${{{{ steps.{name}.outputs.result }}}}" for name, _ in rows
            ),
            runners=",".join(name for name, _ in rows),
        ),
        encoding="utf-8",
    )
    yield str(workflow)


def _course() -> Iterator[Path]:
    """The files of the course that a grader needs."""
    for name in _WITH_IT:
        yield ROOT / name
    for package in _PACKAGES:
        for folder, inner, names in os.walk(ROOT / package):
            inner[:] = [name for name in inner if name != "__pycache__"]
            yield from (Path(folder, name) for name in sorted(names) if not name.endswith(".pyc"))


def _script(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o755 << 16
    archive.writestr(entry, text)
