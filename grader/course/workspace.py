"""A learner's folder: a file for each problem, the pages, and one small file that remembers progress."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader import course, page
from grader.problem import Problem

PROGRESS = ".progress.json"
DEFAULT = "attempts"


@dataclass(frozen=True)
class Workspace:
    """The folder. Nothing here ever overwrites a learner's file."""

    folder: Path

    def file(self, problem: Problem) -> Path:
        return self.folder / f"{problem.name}.py"

    def start(self) -> list[Path]:
        """Adds every stub and page that is missing; returns the new paths. Pages that the course changed are renewed."""
        new = [path for problem in course.problems() if (path := self.add(problem))]
        for problem in course.problems():
            target = self.folder / "pages" / f"{problem.name}.md"
            known = target.is_file()
            text = page.without_hints(problem)
            if not known or target.read_text(encoding="utf-8") != text:
                files.write(target, text)
            if not known:
                new.append(target)
        return new

    def add(self, problem: Problem) -> Path | None:
        """Makes the problem's file from its stub if it is missing. Returns it if it is new."""
        target = self.file(problem)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                try:
                    file.write(course.stub_text(problem))
                    file.flush()
                except OSError:  # a full disk: half a stub would later pass for the learner's own
                    target.unlink()
                    raise
        except FileExistsError:
            if not self.folder.is_dir():
                raise UsageError(f"{self.folder} is a file; the workspace must be a folder.") from None
            return None
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
        return target

    def progress(self) -> dict[str, dict[str, Any]]:
        """By problem name: `{"verdict", "score", "hints", "given_up"}`. A damaged file counts as no progress."""
        try:
            found = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        rows = found.get("problems") if isinstance(found, dict) else None
        return {k: v for k, v in rows.items() if isinstance(v, dict)} if isinstance(rows, dict) else {}

    def remember(self, problem: Problem, **facts: Any) -> None:
        """Updates one problem's facts, atomically. A best score is never lowered. Only in a folder that exists."""
        if not self.folder.is_dir():
            return
        progress = self.progress()
        row = progress.setdefault(problem.name, {})
        if "score" in facts and facts["score"] < row.get("score", 0):
            facts = {}
        row.update(facts)
        text = json.dumps({"schema": 1, "problems": progress}, indent=1, sort_keys=True)
        files.write(self.folder / PROGRESS, text + "\n")


def find(folder: str | None) -> Workspace:
    """The workspace: the given folder, else the current one or one above it if it is one, else `attempts`."""
    if folder:
        return Workspace(Path(folder))
    here = Path.cwd()
    for candidate in (here, *here.parents):
        if (candidate / PROGRESS).is_file():
            return Workspace(candidate)
    return Workspace(Path(DEFAULT))
