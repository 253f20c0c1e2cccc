"""The learners' bundle: pages, stubs, definitions and the grader, with the references' outputs but without the
references."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import tomli_w

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import assistants, book, catalog, course, glossary, models, tasks
from grader.course import plays as play_files
from grader.course.selection import selected
from grader.handout import project
from grader.isolation.sandbox import ForkServer
from grader.judge import bundled_outputs
from grader.paths import ROOT
from grader.problem import Problem
from grader.task import Review

PACKAGES = ("commandline", "grader", "studio")
_BUILDS_ON = re.compile(r"\bbuilds_on=\([\d, ]*\)")
# Not what the editor of the studio is made from.
WHEEL = "wheel"  # the folder of what a wheel has beside the packages
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "editor", bundled_outputs.OUTPUTS)


def pack(
    directory: Path, problems: Sequence[Problem], *, plays: bool = False, agents: str | None = None
) -> Iterator[str]:
    """Creates the bundle of these problems; yields lines for the terminal.

    `plays` includes what `grade play` needs. `agents` are the instructions for AI assistants: those of the course
    unless given, none if empty. Raises UsageError if the folder exists and is not empty, or cannot be written. The
    bundle is created whole or not at all.
    """
    with new_folder(directory) as folder:
        yield from fill(folder, problems, plays=plays, agents=agents)
    yield f"{directory}: {len(problems)} problems, without their solutions"


@contextmanager
def new_folder(directory: Path) -> Iterator[Path]:
    """Yields a temporary folder to fill, which becomes `directory` at the end. After an exception nothing is left of
    it.

    Raises UsageError if `directory` exists and is not empty, or cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} already exists and is not empty; choose a new folder.")
    target = directory.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-", ignore_cleanup_errors=True) as name:
            folder = Path(name) / "bundle"
            folder.mkdir()  # with default permissions: the temporary folder is private to its owner
            yield folder
            if target.is_dir():  # not replaced, because it may be the current folder of a shell
                for path in folder.iterdir():
                    shutil.move(path, target)
            else:
                folder.rename(target)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror or error}.") from None


def fill(folder: Path, problems: Sequence[Problem], *, plays: bool = False, agents: str | None = None) -> Iterator[str]:
    """Writes the bundle of these problems, and of the open tasks after them, to an empty folder; yields a line for
    each."""
    # Changes to review are made from solutions, which a bundle has none of.
    open_tasks = [task for task in tasks.after(problems) if not isinstance(task, Review)]
    # The trainer contains a whole GPT, so it is handed out only with what needs it: the capstone, the plays and tasks.
    needs_harness = any("from harness" in _text(problem.folder / "probes.py") for problem in problems)
    packages = [*PACKAGES, *(["harness"] if plays or open_tasks or needs_harness else [])]
    for package in packages:
        shutil.copytree(ROOT / package, folder / package, ignore=_LEFT_OUT)
    _write_shared(folder / "problems", agents)
    if plays or any("from problems.stage" in _text(task.folder / "evidence.py") for task in open_tasks):
        shutil.copytree(ROOT / "problems" / "stage", folder / "problems" / "stage", ignore=_LEFT_OUT)
    with closing(ForkServer()) as fork_server:
        for problem in problems:
            target = folder / "problems" / problem.name
            _copy(problem, target)
            if not plays:
                (target / play_files.FILE).unlink(missing_ok=True)
            outputs, misconceptions = bundled_outputs.record(problem, target, fork_server)
            yield f"{problem.name}  {counted(outputs, 'recorded output')}, {counted(misconceptions, 'misconception')}"
    for task in open_tasks:
        shutil.copytree(task.folder, folder / "tasks" / task.label, ignore=_LEFT_OUT)
        yield f"{task.label}  an open task"
    if open_tasks:
        packages.append("tasks")
        for module in (ROOT / "tasks").glob("*.py"):  # what several tasks share
            shutil.copy(module, folder / "tasks")
    if book.is_available():
        _write_book(folder)
    _write_project(folder, [*packages, "problems"], problems, [task.label for task in open_tasks])


def _write_shared(folder: Path, agents: str | None) -> None:
    """Writes to the new folder of the problems what they share."""
    folder.mkdir()
    shutil.copy(ROOT / "problems" / "__init__.py", folder)
    if text := assistants.instructions() if agents is None else agents:
        (folder / assistants.FILE).write_text(text, encoding="utf-8")
    for looked_up in (glossary.path(), models.path()):
        if looked_up.is_file():
            shutil.copy(looked_up, folder)


def _write_book(folder: Path) -> None:
    """Copies what `grade book` needs, with the first page of the selected course if it has one."""
    (folder / "docs").mkdir()
    for name in book.FILES:
        shutil.copy(ROOT / name, folder / name)
    if (home := selected().root / "docs" / "index.md").is_file():
        shutil.copy(home, folder / "docs")
    else:
        (folder / "docs" / "index.md").unlink()


def _write_project(
    folder: Path, packages: Sequence[str], problems: Sequence[Problem], open_tasks: Sequence[str]
) -> None:
    """Writes the files with which the bundle is installed, and its README."""
    first = problems[0]
    listed = tomli_w.dumps(course.as_toml(selected(), [problem.name for problem in problems], open_tasks))
    (folder / WHEEL).mkdir()
    for name, text in {
        project.PROJECT_FILE: project.project_file(packages, beside=WHEEL),
        project.LICENSE: project.license_text(),
        ".gitignore": ".venv/\n__pycache__/\n",
        course.FILE: listed,
        f"{WHEEL}/{course.FILE}": listed,  # for installations without `-e`
        "README.md": _README.format(title=selected().title, label=first.label, name=first.name),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")


def _copy(problem: Problem, target: Path) -> None:
    """Copies the folder of a problem. The copy builds on the same problems as in the selected course."""
    shutil.copytree(problem.folder, target, ignore=_LEFT_OUT)
    definition = target / "problem.py"
    text = catalog.text_of(definition)
    definition.write_text(_BUILDS_ON.sub(f"builds_on={problem.builds_on}", text), encoding="utf-8")


def _text(path: Path) -> str:
    """Returns the text of a file that a problem or a task need not have."""
    return catalog.text_of(path) if path.is_file() else ""


_README = """# {title}: exercises

Requires Linux, macOS or WSL with Python 3.11 or later, about 0.9 GB of disk, and two minutes to install. Once, from
this folder:

```sh
python3 -m venv .venv && .venv/bin/pip install -e .
```

Then:

```sh
.venv/bin/grade start            # adds to attempts/ what is missing: a file to fill in for every problem, and the pages
.venv/bin/grade show {label}          # read the page
.venv/bin/grade problem {label}       # grade attempts/{name}.py
.venv/bin/grade hint {label}          # hints, one at a time
.venv/bin/grade web              # or all of it in your browser
```

Your file is graded on public examples, for which this folder has the reference's outputs. Your teacher
grades it on other cases.
Hand in the files of the problems as they are called in `attempts/`, such as `{name}.py`.
"""
