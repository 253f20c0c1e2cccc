"""Exports the grader to course systems that run it: Gradescope, Classroom 50, and the workflows of GitHub."""

import io
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog, tasks
from grader.course.course import FILE
from grader.course.seed import create_seed, read_seed
from grader.course.selection import selected
from grader.course.workspace import Workspace
from grader.handout import autograder, pack, project
from grader.paths import ROOT
from grader.problem import Problem
from grader.report.redacted import require_more

_PACKAGES = ("commandline", "grader", "harness", "problems", "solutions", "tasks")

_SETUP = """#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the image. Its own programs need the system's Python as it is, so
# everything is installed in virtual environments. If the image's Python is too old for the course, uv downloads
# another.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends python3-venv
python3 -m venv /autograder/tools
/autograder/tools/bin/python -m pip install uv
/autograder/tools/bin/uv venv --python '>=3.11' /autograder/venv
cd /autograder/source/course
/autograder/tools/bin/uv pip install --python /autograder/venv/bin/python -e .
"""

# Gradescope runs it as root, in a container that may not create namespaces, so weak isolation is accepted; the report
# names it.
_RUN = """#!/usr/bin/env bash
# Runs for each submission. If the grader itself fails, this writes no results. Gradescope then reports that the
# autograder failed, gives no score, and shows this output to instructors.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/class"
cp -r /autograder/submission "$work/class/learner"
/autograder/venv/bin/grade {course}batch "$work/class" --out "$work/results" --problems {problems} \\
    --seed-file /autograder/source/seed.txt --accept-isolation weak --jobs 1 --format gradescope \\
    --reveal {reveal}
cp "$work/results/gradescope/learner.json" /autograder/results/results.json
"""

_WORKFLOW = """name: Grade
on: [push, workflow_dispatch]
permissions:
  contents: read
jobs:
  grade:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: pyproject.toml
      - id: install
        run: python -m pip install -e .
{steps}"""
# A problem that does not pass fails its step, and the steps after it still run. Indented text is code in the summary.
_STEP = """      - name: Problem {label}
        if: ${{{{ !cancelled() && steps.install.outcome == 'success' }}}}
        shell: bash
        run: |
          grade --workspace attempts problem {label} --format text |
            tee /dev/stderr | sed 's/^/    /' >> "$GITHUB_STEP_SUMMARY"
"""

CLASSROOM50_MOST_BYTES = 10 << 20  # its runner fetches no larger bundle


def gradescope(
    archive: Path,
    problems: Sequence[Problem],
    seed_file: Path | None,
    reveal: str = "advice",
    after_due: str | None = None,
) -> None:
    """Writes the zip file of an autograder for these problems. Without a seed file, it gets a new random seed.

    `reveal` is how much learners see, and `after_due` how much Gradescope shows them after its due date, as in `grade
    batch`. Raises UsageError if the archive exists or cannot be written, if the seed file is unusable, or if
    `after_due` reveals less.
    """
    require_more(reveal, after_due)
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
            root = selected().root
            own = [] if root == ROOT else [*_files(root, ("problems", "tasks", "solutions", FILE))]
            told = " --reveal-after-due ".join(filter(None, (reveal, after_due)))
            choice = "--course /autograder/source/own " if own else ""
            _add_script(
                autograder,
                "run_autograder",
                _RUN.format(
                    problems=labels,
                    course=choice,
                    reveal=told,
                ),
            )
            autograder.writestr("seed.txt", file.read_bytes())
            for name, content in _course(problems):
                autograder.writestr(f"course/{name}", content)
            for name, content in own:
                autograder.writestr(f"own/{name}", content)
    files.write(archive, data.getvalue())


def github(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    """Writes a repository: the learners' bundle, a workspace, and a workflow that grades it. Yields lines for the
    terminal.

    Raises UsageError if the folder exists and is not empty, or cannot be written. It is created whole or not at all.
    """
    workflow = Path(".github", "workflows", "grade.yml")
    with pack.new_folder(directory) as folder:
        yield from pack.fill(folder, problems)
        space = Workspace(folder / "attempts")
        for problem in problems:
            space.add(problem)
        steps = "".join(_STEP.format(label=problem.label) for problem in problems)
        files.write(folder / workflow, _WORKFLOW.format(steps=steps))
    yield str(directory / workflow)


def classroom50(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    """Writes the folder of an assignment's autograder in Classroom 50. Yields lines for the terminal.

    Classroom 50 publishes the folder, so it holds the learners' bundle: no solutions, and no hidden cases.

    Raises UsageError if the folder exists and is not empty, cannot be written, or is too large for Classroom 50. It is
    created whole or not at all.
    """
    with pack.new_folder(directory) as folder:
        course = folder / "course"
        course.mkdir()
        yield from pack.fill(course, problems)
        shutil.copy(autograder.__file__, folder / "autograder.py")
        size = _archived(folder)
        if size > CLASSROOM50_MOST_BYTES:
            raise UsageError(
                f"The autograder of these problems has {size / (1 << 20):.1f} MiB; Classroom 50 takes at most "
                f"{CLASSROOM50_MOST_BYTES >> 20}. Export fewer problems."
            )
    yield str(directory / "autograder.py")


def _archived(folder: Path) -> int:
    """Returns the size of a folder as a compressed archive, in bytes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(folder, ".")
    return len(data.getvalue())


def _course(problems: Sequence[Problem]) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the content of each file of the course that a grader of these problems needs.

    Of GPT Kata's solutions, only those of these problems and of their imports, and none of open tasks. Any other course
    may include all of its files.
    """
    yield project.PROJECT_FILE, project.project_file(_PACKAGES).encode()  # the repository's names more packages
    yield project.LICENSE, project.license_text().encode()
    needed = {name for problem in problems for name in catalog.reference_sources(problem)}
    others = (
        [problem for problem in catalog.all_problems() if problem.name not in needed] if selected().root == ROOT else []
    )
    left_out = {
        f"solutions/{catalog.solution_path(other).stem}{suffix}" for other in others for suffix in (".py", ".toml")
    } | {path.relative_to(ROOT).as_posix() for other in others for path in catalog.frames(other)}
    of_tasks = tuple(f"solutions/{name}/" for name in tasks.names()) if selected().root == ROOT else ()
    files_ = _files(ROOT, (*_PACKAGES, FILE))
    yield from (file for file in files_ if file[0] not in left_out and not file[0].startswith(of_tasks))


def _files(root: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the content of files, and of each file in folders, below a root folder."""
    for path in (path for name in names for path in (root / name, *sorted((root / name).rglob("*")))):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(root).as_posix(), path.read_bytes()


def _add_script(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o755 << 16
    archive.writestr(entry, text)
