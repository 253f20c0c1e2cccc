"""The bundle that learners get: pages, stubs, definitions and the grader; of the references their answers only."""

import shutil
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from commandline.errors import UsageError
from grader.judge import recorded
from grader.paths import ROOT
from grader.problem import Problem

PACKAGES = ("commandline", "grader")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", recorded.OUTPUTS)


def pack(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    """Makes the bundle of these problems; says what is in it. Raises UsageError if the folder is there and not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there already; name a new folder for the bundle.")
    try:
        yield from _pack(directory, problems)
    except OSError as error:
        raise UsageError(f"{error.filename or directory} cannot be written: {error.strerror}.") from None


def _pack(directory: Path, problems: Sequence[Problem]) -> Iterator[str]:
    # The trainer holds a whole GPT: it is handed out with the capstone, which needs it, and not before.
    needs_harness = any("from harness" in _probes(problem) for problem in problems)
    packages = [*PACKAGES, *(["harness"] if needs_harness else [])]
    for package in packages:
        shutil.copytree(ROOT / package, directory / package, ignore=_LEFT_OUT)
    (directory / "problems").mkdir()
    shutil.copy(ROOT / "problems" / "__init__.py", directory / "problems")
    for problem in problems:
        target = directory / "problems" / problem.name
        shutil.copytree(problem.folder, target, ignore=_LEFT_OUT)
        count = recorded.record(problem, target)
        yield f"{problem.name}  {count} answers"
    (directory / "pyproject.toml").write_text(
        _pyproject([*packages, "problems"], harness=needs_harness), encoding="utf-8"
    )
    first = problems[0]
    (directory / "README.md").write_text(_README.format(label=first.label, name=first.name), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", directory)
    yield f"{directory}: {len(problems)} problems, without their solutions"


def _probes(problem: Problem) -> str:
    path = problem.folder / "probes.py"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _pyproject(packages: Sequence[str], *, harness: bool) -> str:
    """The bundle's own: hypothesis as it is here, because it draws the cases that there are answers for."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = ours["project"]
    drawing = f"hypothesis=={version('hypothesis')}"
    needed = [drawing if name.startswith("hypothesis") else name for name in project["dependencies"]]
    programs = {name: entry for name, entry in project["scripts"].items() if harness or name != "harness"}
    build = ours["build-system"]
    lines = [
        "[build-system]",
        f"requires = {_list(build['requires'])}",
        f'build-backend = "{build["build-backend"]}"',
        "",
    ]
    lines += ["[project]", f'name = "{project["name"]}"', f'version = "{project["version"]}"']
    lines += [f'requires-python = "{project["requires-python"]}"', f"dependencies = {_list(needed)}"]
    lines += ["", "[project.scripts]"]
    lines += [f'{name} = "{entry}"' for name, entry in programs.items()]
    lines += ["", "[project.entry-points.pytest11]"]
    lines += [f'{name} = "{entry}"' for name, entry in project["entry-points"]["pytest11"].items()]
    lines += ["", "[tool.uv.build-backend]", 'module-root = ""', f"module-name = {_list(sorted(packages))}"]
    return "\n".join(lines) + "\n"


def _list(items: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{item}"' for item in items) + "]"


_README = """# GPT Kata: exercises

Install it once (Python 3.11 or newer and pip; run it in this folder):

```sh
python3 -m venv --without-pip .venv && python3 -m pip --python .venv install -q -e .
```

Then:

```sh
.venv/bin/grade start            # makes attempts/: a file to fill in for every problem, and the pages
.venv/bin/grade show {label}          # read the page
.venv/bin/grade problem {label}       # grade attempts/{name}.py
.venv/bin/grade hint {label}          # a nudge, then a bigger one
```

Your file is compared with what the reference gives on the examples that are here. Your teacher's cases are others.
"""
