"""Finds the problems that a change affects: those whose definition, page, stub, reference or probes depend on a changed
file."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from commandline.errors import UsageError
from grader.course import catalog, imports
from grader.course.course import FORGERIES, FRAMES, STYLES
from grader.problem import Problem


def changed_since(problems: Iterable[Problem], ref: str) -> list[Problem]:
    """Returns the problems that differ from the commit `ref`, in the same order. Files that are not committed count.

    A change of the grader touches none of them: the grader's own tests are about that. Raises UsageError if a course is
    not in a Git repository, or if `ref` names none of its commits.
    """
    return [problem for problem in problems if _is_touched(problem, _changed_files(problem.home, ref))]


def _is_touched(problem: Problem, changed: frozenset[Path]) -> bool:
    home, prefix = problem.home.resolve(), problem.folder.name[:3]
    modules = [name for path in problem.folder.glob("*.py") for name in imports.read(path).imports]
    used = imports.files((name for name in modules if name.startswith("problems.")), home)
    programs = [catalog.solution_path(problem), *catalog.styles(problem)]  # a style may import another reference
    references = [
        imports.with_imports(problem.name, path.read_text(), catalog.references(problem)) for path in programs
    ]
    used |= {home / "solutions" / f"{name}.py" for sources in references for name in sources}
    folders = (home / STYLES, home / FRAMES, home / FORGERIES)  # a program that is gone has no file to list
    return any(
        path in used
        or path.is_relative_to(problem.folder.resolve())
        or path == catalog.solution_path(problem).with_suffix(".toml").resolve()
        or (path.parent in folders and path.name.startswith(f"{prefix}_"))
        for path in changed
    )


@cache
def _changed_files(home: Path, ref: str) -> frozenset[Path]:
    """Returns the files of the repository around a course that differ from a commit, as absolute paths."""
    top = Path(_git(home, ref, "rev-parse", "--show-toplevel").strip())
    commit = _git(top, ref, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").strip()
    names = _git(top, ref, "diff", "--name-only", "--no-renames", "-z", commit, "--").split("\0")
    names += _git(top, ref, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return frozenset((top / name).resolve() for name in names if name)


def _git(folder: Path, ref: str, *words: str) -> str:
    try:
        git = ["git", "-C", str(folder), *words]
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"--changed-since needs Git: {error}.") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise UsageError(f"Git cannot compare {folder} with {ref!r}: {reason.removeprefix('fatal: ')}.")
    return done.stdout
