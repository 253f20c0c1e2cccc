"""A learner's folder: a file for each problem, the pages, and the log of the learner's progress."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from commandline import files
from commandline.errors import UsageError
from grader.course import assistants, catalog, imports, log, page, paths, selection
from grader.course.log import Entry, Progress
from grader.course.paths import CoursePath
from grader.course.predictions import Prediction
from grader.paths import ROOT
from grader.problem import Problem

_LARGEST = 1 << 20  # bytes, of a page
DEFAULT = "attempts"
PASSED, PASSED_BY_CORE = "passed", "passed by its core"  # the states of a file that passes as it is
CHANGED = "changed since it passed"
# So that git joins the logs of two machines without asking.
_ATTRIBUTES = f"{log.FILE} merge=union\n"


class Standing(NamedTuple):
    """A learner's current standing in one problem: `state` in words, empty before the first grading, and the points."""

    state: str
    points: int
    passed: bool


@dataclass(frozen=True)
class Workspace:
    """A learner's folder. No method overwrites a file that the learner has written or edited."""

    folder: Path

    def file(self, problem: Problem) -> Path:
        return self.folder / f"{problem.name}.py"

    @property
    def modules(self) -> Path:
        """The folder with the files that a solution may import."""
        return self.folder

    def start(self) -> tuple[list[Path], list[Path]]:
        """Adds every stub and page that is missing, and replaces the pages that have changed since they were written.
        Adds the files that instruct AI assistants to tutor, unless the folder has instructions for them.

        Returns the new paths, and the pages that were not replaced because the learner may have edited them.
        """
        created = [path for problem in catalog.problems() if (path := self.add(problem))]
        known = self._page_digests()
        digests = dict(known)
        new_pages, kept = self._bring_pages(digests)
        root = selection.selected().root
        course = "" if root == ROOT else selection.name_of(root)
        new = {name: digest for name, digest in digests.items() if digest != known.get(name)}
        if new or course != self.course or not (self.folder / log.FILE).is_file():
            self.record("started", course=course, pages=new)
        if not os.path.lexists(attributes := self.folder / ".gitattributes"):
            files.write(attributes, _ATTRIBUTES)
        return created + new_pages + self._instruct_assistants(), kept

    def _bring_pages(self, digests: dict[str, str]) -> tuple[list[Path], list[Path]]:
        """Writes the pages that are missing or have changed, and their digests into `digests`, by name of the problem.

        Returns the paths of new pages, and of those that were kept because the learner may have edited them.
        """
        created, kept = list[Path](), list[Path]()
        for problem in catalog.problems():
            target = self.folder / "pages" / f"{problem.name}.md"
            text, written = page.without_hints(problem), digests.get(problem.name)
            try:
                present = _read(target)
            except files.NotRegularFileError:
                kept.append(target)
                continue
            if present is None:
                created.append(target)
            elif present != text and written == _digest(text):
                continue  # the learner edited it, and the course has no newer page
            elif present != text and written != _digest(present):
                kept.append(target)
                continue
            if present != text:
                files.write(target, text)
            digests[problem.name] = _digest(text)
        return created, kept

    def _instruct_assistants(self) -> list[Path]:
        """Writes the files that instruct AI assistants to tutor, unless the folder has instructions. Returns the new
        paths."""
        if os.path.lexists(self.folder / assistants.INSTRUCTIONS):
            return []
        texts = {self.folder / name: text for name, text in assistants.files().items()}
        missing = [path for path in texts if not os.path.lexists(path)]
        for path in missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, texts[path])
        return missing

    def entries(self) -> list[Entry]:
        """Returns all entries of the log, in order of time."""
        return log.read(self.folder)

    def note(self, *entries: Entry) -> None:
        """Adds entries to the log, if the folder exists. Raises UsageError."""
        if self.folder.is_dir():
            log.append(self.folder, *entries)

    def record(self, kind: str, problem: str = "", **facts: Any) -> Entry:
        """Adds an event, which happened now, to the log, with the arguments of `log.entry`. Raises UsageError."""
        new = log.entry(kind, problem, **facts)
        self.note(new)
        return new

    def add(self, problem: Problem) -> Path | None:
        """Creates the problem's file from its stub if it is missing. Returns its path if it is new. Raises
        UsageError."""
        target = self.file(problem)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                try:
                    file.write(catalog.stub_text(problem))
                    file.flush()
                except OSError:  # on a full disk; half a stub would later pass for the learner's own file
                    target.unlink()
                    raise
        except FileExistsError:
            if not self.folder.is_dir():
                raise UsageError(f"{self.folder} is a file; the workspace must be a folder.") from None
            return None
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
        return target

    @property
    def course(self) -> str:
        """The course that the workspace was started with: the name of an installed one, or a path. Empty for the
        shipped one."""
        return next((entry.text("course") for entry in reversed(self.entries()) if entry.kind == "started"), "")

    def progress(self) -> dict[str, Progress]:
        """Returns the progress by problem name. Damaged entries count as missing."""
        return log.by_problem(self.entries())

    def hints_seen(self, problem: Problem) -> int:
        """Returns the number of the problem's hints that the learner has seen."""
        return min(self.progress().get(problem.name, Progress()).hints, len(page.hints(problem)))

    def remember(
        self,
        problem: Problem,
        *,
        verdict: str = "",
        score: int = 0,
        digest: str = "",
        mistake: str = "",
        stages: int = 0,
        hints: int = 0,
        fix: str = "",
        given_up: bool = False,
    ) -> None:
        """Notes a verdict, the number of hints seen, the misconception whose remedy was read, or that the learner gave
        up.

        `digest` is that of the text that got the verdict: the current one unless given. `mistake` is the misconception
        that was named, and `stages` the number of stages that are passed. What changes nothing is noted once a day.
        """
        entries = self.entries()
        before = log.by_problem(entries).get(problem.name, Progress())
        new = []
        if verdict:
            digest = digest or self.digest(problem)
            versions = log.versions() if verdict == "PASS" and digest != before.digest else ""
            new.append(
                log.entry(
                    "graded",
                    problem.name,
                    verdict=verdict,
                    score=score,
                    digest=digest,
                    versions=versions,
                    mistake=mistake,
                    stages=stages or None,
                )
            )
        if hints:
            new.append(log.entry("hints", problem.name, count=hints))
        if fix:
            new.append(log.entry("fix", problem.name, idea=fix))
        if given_up:
            new.append(log.entry("gave up", problem.name))
        days = {entry.day for entry in entries if entry.problem == problem.name and entry.kind == "graded"}
        self.note(
            *(
                entry
                for entry in new
                if before.after(entry) != before or (entry.kind == "graded" and entry.day not in days)
            )
        )

    def predicted(self, problem: Problem) -> dict[str, bool]:
        """Returns whether the learner's last answer to each prediction of a problem was right, by the prediction's
        id."""
        return {
            entry.text("question"): entry.number("right") == 1
            for entry in self.entries()
            if entry.kind == "predicted" and entry.problem == problem.name
        }

    def predict(self, problem: Problem, prediction: Prediction, text: str) -> bool:
        """Notes the learner's answer to a prediction, and returns whether it is right. Raises ValueError, with a
        sentence, if it is no answer."""
        right = prediction.is_right(text)
        self.record("predicted", problem.name, question=prediction.id, answer=text.strip()[:100], right=int(right))
        return right

    def digest(self, problem: Problem) -> str:
        """Returns a hash of the problem's file and of the course modules in the folder that it imports. Empty if there
        is no file."""
        sources = self._sources(problem)
        return digest_of(sources) if sources else ""

    def why_changed(self, problem: Problem) -> str:
        """Returns which imported files changed since the problem passed, in a clause; empty if its file is as it was,
        or if no import is known to have changed."""
        if self.standing(problem).state != CHANGED:
            return ""
        labels = [each.label for each in self._changed_imports(problem, self.progress())]
        return f"it imports {' and '.join(labels)}, which changed" if labels else ""

    def _changed_imports(self, problem: Problem, progress: Mapping[str, Progress]) -> list[Problem]:
        """Returns the problems whose files this one imports, directly or not, and that changed after it passed. One
        that changed only because of its own imports is left out."""
        passed_at = progress[problem.name].passed_at
        names = self._sources(problem).keys() - {problem.name}
        changed = [
            each
            for each in catalog.problems()
            if each.name in names and (row := progress.get(each.name))
            if row.passed_at > passed_at or self._standing(each, progress).state not in (PASSED, PASSED_BY_CORE)
        ]
        implied = {
            each.name for each in changed if self._sources(each).keys() & {one.name for one in changed} - {each.name}
        }
        return [each for each in changed if each.name not in implied]

    def _sources(self, problem: Problem) -> Mapping[str, str]:
        """Returns the text of the problem's file and of the course modules in the folder that it imports, by name;
        nothing if there is no file."""

        def text(name: str) -> str | None:
            try:
                return _read((self.folder if name == problem.name else self.modules) / f"{name}.py")
            except (OSError, files.NotRegularFileError):
                return None

        source = text(problem.name)
        return {} if source is None else imports.with_imports(problem.name, source, text)

    def standings(self) -> dict[str, Standing]:
        """Returns the learner's standing in each problem of the course, by name."""
        progress = self.progress()
        return {problem.name: self._standing(problem, progress) for problem in catalog.problems()}

    def standing(self, problem: Problem) -> Standing:
        """Returns the learner's standing in a problem, as far as it is known without grading again."""
        return self._standing(problem, self.progress())

    @property
    def path(self) -> CoursePath:
        """The path that the learner has chosen last; the whole course without a choice, or if it is gone."""
        by_name = {path.name: path for path in paths.every()}
        chosen = [entry.text("path") for entry in self.entries() if entry.kind == "path"]
        return by_name.get(chosen[-1] if chosen else "", by_name[paths.EVERYTHING])

    def finished(self, problem: Problem) -> str:
        """Returns what the learner has now that the part or the path of a passed problem is finished, or that it is a
        milestone of the path and all before it are passed; empty if none of them is so."""
        passed = {name for name, standing in self.standings().items() if standing.passed}
        part = catalog.part_of(problem)
        said = []
        path = self.path
        if all(each.name in passed for each in catalog.problems() if catalog.part_of(each) == part):
            said.append(catalog.done(problem))
        elif (reached := path.milestone(passed)) == path.milestones.get(problem.name):
            said.append(reached)
        if path.name != paths.EVERYTHING and problem in path.problems and path.done(passed) == len(path.problems):
            said.append(f"You have come to the end of your path, {path.title}. {path.then}")
        return " ".join(filter(None, said))

    def reached(self) -> str:
        """Returns what the learner has at the last milestone of the path; without one, at the end of the last part that
        is passed. Empty before the first."""
        passed = {name for name, standing in self.standings().items() if standing.passed}
        if text := self.path.milestone(passed):
            return text
        left = {catalog.part_of(each) for each in catalog.problems() if each.name not in passed}
        whole = [each for each in catalog.problems() if catalog.part_of(each) not in left]
        return next(filter(None, map(catalog.done, reversed(whole))), "")

    def choose_path(self, path: CoursePath) -> None:
        """Notes the path that the learner has chosen. Raises UsageError if the workspace cannot be written."""
        self.record("path", path=path.name)

    def next_problem(self, after: Problem | None = None) -> Problem | None:
        """Returns the first problem after this one that is not passed, else the first of all; None if all others are.

        Those of the learner's path come first, in its order. Once a problem of another part is attempted, those of an
        optional part come last.
        """
        on_path = [] if self.path.name == paths.EVERYTHING else list(self.path.problems)
        problems = [*on_path, *(each for each in catalog.problems() if each not in on_path)]
        progress = self.progress()
        passed = {each.name for each in problems if self._standing(each, progress).passed}
        place = [each.name for each in problems].index(after.name) if after else -1
        in_turn = [each for each in problems[place + 1 :] + problems[: max(place, 0)] if each.name not in passed]
        attempted = {name for name, row in progress.items() if row.attempted}
        if any(each.name in attempted and not catalog.is_optional(each) for each in problems):
            in_turn.sort(key=lambda each: catalog.is_optional(each) and each not in on_path)
        in_turn.sort(key=lambda each: each not in on_path)
        return next(iter(in_turn), None)

    def instead_of(self, problem: Problem) -> Problem | None:
        """Returns the first required problem that is not passed, if this one is optional; otherwise None."""
        if not catalog.is_optional(problem):
            return None
        progress = self.progress()
        required = (each for each in catalog.problems() if not catalog.is_optional(each))
        return next((each for each in required if not self._standing(each, progress).passed), None)

    def _standing(self, problem: Problem, progress: Mapping[str, Progress]) -> Standing:
        row = progress.get(problem.name, Progress())
        last, points = (row.last_verdict, row.last_score) if row.last_verdict else (row.verdict, row.score)
        if row.verdict != "PASS":
            return Standing("gave up" if row.given_up else last.lower(), points, False)
        same = not row.digest or self.digest(problem) == row.digest
        if last == "PASS" or (row.digest and same):
            passed = PASSED_BY_CORE if row.by_core else PASSED
            return Standing(passed if same else CHANGED, row.score, True)
        return Standing("reset" if last == "NOT ATTEMPTED" else "broken", points, False)

    def reset(self, problem: Problem) -> Path | None:
        """Replaces the learner's file by the stub. Raises UsageError.

        Returns the path to which the old file was moved, a new name with a number; None if there was nothing to keep.
        """
        kept = None if self.add(problem) else self.put(problem, catalog.stub_text(problem))
        if self.progress().get(problem.name, Progress()).form == log.CORE:
            self.record("begun", problem.name, form=log.WHOLE)
        if kept:
            self.remember(problem, verdict="NOT ATTEMPTED", score=0)
        return kept

    def put(self, problem: Problem, text: str) -> Path | None:
        """Writes a text to the problem's file. Returns the path that the file before it is kept at, under a new name
        with a number; None if there was nothing to keep, as where it was the stub. Raises UsageError."""
        target, kept = self.file(problem), None
        try:
            if (present := _read(target)) == text:
                return None
            if present not in (None, catalog.stub_text(problem)):
                kept = next(
                    path for number in count(1) if not os.path.lexists(path := target.with_suffix(f".{number}.py"))
                )
                with kept.open("xb") as copy, target.open("rb") as file:
                    shutil.copyfileobj(file, copy)
            files.replace(target, text)
        except files.NotRegularFileError as error:
            raise UsageError(f"{target} {error}.") from None
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
        return kept

    def _page_digests(self) -> dict[str, str]:
        """Returns a hash of each page as the course wrote it, by problem name."""
        digests: dict[str, str] = {}
        for entry in self.entries():
            pages = entry.facts.get("pages") if entry.kind == "started" else None
            rows = pages.items() if isinstance(pages, dict) else ()
            digests |= {name: digest for name, digest in rows if isinstance(digest, str)}
        return digests


def find(folder: str | None) -> Workspace:
    """Returns the workspace: the given folder, else the current one or the nearest one above it that has progress, else
    `attempts`.

    Below the course's own folder, that is its `attempts` if it has progress.
    """
    if folder:
        return Workspace(Path(folder))
    here = Path.cwd()
    for candidate in (here, *here.parents):
        if _has_progress(candidate):
            return Workspace(candidate)
    if ROOT in here.parents and _has_progress(ROOT / DEFAULT):
        return Workspace(ROOT / DEFAULT)
    return Workspace(Path(DEFAULT))


def digest_of(sources: Mapping[str, str]) -> str:
    """Returns a hash of a submission: of the texts of a file and of the course modules that it imports, by name."""
    return _digest(json.dumps(dict(sources), sort_keys=True))


def _has_progress(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (log.FILE, log.OLD))


def _read(path: Path) -> str | None:
    """Returns the text of a file, or None if there is none. Raises NotRegularFileError."""
    try:
        return files.read_regular(path, _LARGEST).decode("utf-8", "replace").replace("\r\n", "\n")
    except FileNotFoundError:
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
