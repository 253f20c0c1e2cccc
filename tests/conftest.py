"""What all tests share: the command line as a real process, and a cache of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ours", deadline=None)  # a first call compiles
settings.load_profile("ours")

ROOT = Path(__file__).resolve().parent.parent


# They take a minute or more each: begun first, they leave no processor idle at the end.
LONG = (
    "test_sound[p32",
    "killed_at_ten",
    "walk_through_the_course[30]",
    "test_tinystories.py",
    "test_a_to_a",
    "two_processes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(part in item.nodeid for part in LONG))


@dataclass(frozen=True)
class Run:
    """A finished `grade` command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.out)


Grade = Callable[..., Run]


def boot(root: Path = ROOT) -> str:
    """`grade` of a course, as the text of a program."""
    return f"import sys; sys.path.insert(0, {str(root)!r}); from grader.cli.learner import main; main()"


# `grade` as a program file, as an installed one is: processes of a pool import it again, and must not run it.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from grader.cli.learner import main
if __name__ == "__main__":
    main()
"""


def write_program(path: Path, root: Path = ROOT) -> None:
    """Makes `grade` of a course an executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM.format(python=sys.executable, root=str(root)))
    path.chmod(0o755)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all test processes, and none of the user's."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    os.environ["GRADE_CACHE"] = str(folder)
    return folder


@pytest.fixture
def grade(tmp_path: Path) -> Grade:
    """Runs `grade ARGS` in an empty folder (or `cwd`), as a process."""

    def run(*args: object, cwd: Path = tmp_path, root: Path = ROOT, **env: str) -> Run:
        done = subprocess.run(
            [sys.executable, "-c", boot(root), *map(str, args)],
            cwd=cwd,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    return run
