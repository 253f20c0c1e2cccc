"""Finds the submissions of a class: which learner, which problem, which file. Reads unmodified exports of course systems."""

import contextlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from commandline.errors import CommandError, UsageError
from commandline.problem_name import ProblemName
from grader.batch import archive, exports, recognize
from grader.batch.archive import File, RefusedFileError
from grader.batch.exports import Learner, SubmittedFile
from grader.batch.faults import Faults
from grader.batch.recognize import SUFFIXES, Candidate, Choice, choose
from grader.batch.records import Person, collated
from grader.course import catalog, imports
from grader.judge import submission
from grader.judge.submission import Submission, UnreadableSubmissionError
from grader.problem import Problem

_NOT_CHOSEN = "is not the submission for its problem"
_NOT_GRADED = "which is not graded here"  # the end of the reason why a file for another problem is not used


@dataclass(frozen=True)
class IntakeItem:
    """One learner's work on one problem: a submission, or the reason why there is nothing to grade.

    `submitted` is the time of the export's stamp, and `late` its mark. `members` names the group that handed it in, if one did.
    """

    learner: str
    problem: str
    file: str = ""
    submission: Submission | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()
    submitted: datetime | None = None
    late: bool = False
    members: str = ""


@dataclass(frozen=True)
class UnusedFile:
    """A file that decides no result, and why. The reason is the rest of a sentence that begins with the file's name."""

    learner: str
    file: str
    reason: str

    @property
    def is_for_another_problem(self) -> bool:
        """Whether the file is for a problem that is not graded now."""
        return self.reason.endswith(_NOT_GRADED)

    @property
    def may_be_a_submission(self) -> bool:
        """Whether the file could be meant for a problem that nothing was handed in for: its own problem is not known."""
        return not self.is_for_another_problem and not self.reason.startswith(_NOT_CHOSEN)


@dataclass
class Intake:
    """The submissions of a class.

    `layout` names the system whose layout was recognized, `problems` are those to grade, and `notes` concern the whole class.
    `people` has what the export identifies each learner by.
    """

    layout: str
    people: dict[str, Person]
    problems: Sequence[Problem]
    items: list[IntakeItem]
    unused: list[UnusedFile]
    notes: list[str] = field(default_factory=list)

    @property
    def learners(self) -> list[str]:
        """The learners in order."""
        return sorted(self.people, key=collated)

    def rename(self, learner: str, to: str) -> None:
        """Gives a learner another name. If somebody has it already, the two become one, with the files of both."""
        person = self.people.pop(learner)
        other = self.people.get(to, Person(to))
        self.people[to] = other.knowing(person)
        self.items[:] = [replace(item, learner=to) if item.learner == learner else item for item in self.items]
        self.unused[:] = [replace(file, learner=to) if file.learner == learner else file for file in self.unused]


def read(source: Path, problems: Sequence[Problem] | None, faults: Faults) -> Intake:
    """Reads the submissions for these problems from a folder or an archive.

    Without `problems`, all that at least one learner submitted a file for, by its name; if none has such a name, by what the
    files define. Raises UsageError if there is no learner or no submission.
    """
    export = exports.read(archive.files(source), archive=not source.is_dir())
    if source.is_dir() and export.layout in ("", exports.FOLDERS):
        export = replace(export, layout=exports.FOLDERS)
        for name in _empty_folders(source):
            export.learners.setdefault(name, Learner((name,)))  # who has submitted nothing
    if not export.learners:
        raise UsageError(
            f"{source} has no learners' folders. Give one folder per learner, or an export of Gradescope, Canvas or Moodle."
        )
    problems = problems or _submitted(source, export.learners)
    people = {name: Person(name, own.ids, own.canvas) for name, own in export.learners.items()}
    intake = Intake(export.layout, people, problems, [], [], export.notes)
    for file in export.loose:
        intake.unused.append(UnusedFile("", str(file.path), "is in no learner's folder"))
    for name in intake.learners:
        try:
            items, unused = _of_learner(name, expanded(export.learners[name]), problems)
        except CommandError:
            raise
        except Exception as error:  # whatever it is, the rest of the class is graded
            reason = faults.add(name, error)
            items, unused = [IntakeItem(name, problem.name, refused=reason) for problem in problems], []
        intake.items += items
        intake.unused += unused
    by_folded_name: dict[str, list[str]] = defaultdict(list)
    for name in intake.learners:
        by_folded_name[unicodedata.normalize("NFKC", name).casefold().strip()].append(name)
    for spellings in by_folded_name.values():
        if len(spellings) > 1:
            intake.notes.append(f"{' and '.join(map(repr, spellings))} may be the same learner")
    return intake


def _of_learner(
    name: str, listed: Sequence[SubmittedFile], problems: Sequence[Problem]
) -> tuple[list[IntakeItem], list[UnusedFile]]:
    """The items of a learner, of whom each group handed in files apart from the learner's own, and the unused files."""
    items, unused = list[IntakeItem](), list[UnusedFile]()
    for members in sorted({item.members for item in listed}) or [""]:
        own, left = _LearnerFiles(name, [item for item in listed if item.members == members]).items(problems)
        items += [replace(item, members=members) for item in own]
        unused += left
    return items, unused


def _empty_folders(source: Path) -> list[str]:
    """The names of the folders in which there is nothing at all."""
    folders = (path for path in source.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != ".")
    return [folder.name for folder in folders if not any(folder.iterdir())]


def expanded(learner: Learner) -> list[SubmittedFile]:
    """The learner's files, by path. Those in an archive have the stamp of the archive."""
    archives = archive.Expansion()
    found = [replace(item, file=file) for item in learner.files for file in archives.files(item.file)]
    return sorted(found, key=lambda item: item.file.path.parts)


def _submitted(source: Path, learners: Mapping[str, Learner]) -> list[Problem]:
    """The problems that at least one learner submitted a file for. Raises UsageError if there is none.

    What files define counts only if no file of the class has the name of a problem: a helper is no submission.
    """
    for recognized, most in ((_named, None), (recognize.by_definitions, recognize.MOST_SEARCHED)):
        names: set[str] = set()
        for learner in learners.values():
            with contextlib.suppress(Exception):  # it is met again, and logged, when the learner's files are read
                searched = [item for item in expanded(learner) if _is_code(item)][:most]
                names |= set[str]().union(*map(recognized, searched))
        if names:
            return [catalog.load(name) for name in sorted(names)]
    raise UsageError(f"No submission in {source} matches a problem; files must be named like {catalog.names()[0]}.py.")


def _named(item: SubmittedFile) -> set[str]:
    candidate = recognize.by_name(item)
    return {candidate.problem} if candidate else set()


def _is_code(item: SubmittedFile) -> bool:
    return item.file.path.suffix.lower() in SUFFIXES


class _LearnerFiles:
    """The files of one learner: which of them count for which problem, and why the others do not."""

    def __init__(self, learner: str, listed: Sequence[SubmittedFile]) -> None:
        self.learner = learner
        self.listed = listed
        self._chosen: dict[str, Choice] = {}
        self._texts: dict[str, tuple[str, list[str]]] = {}
        self._used: set[PurePosixPath] = set()

    def items(self, problems: Sequence[Problem]) -> tuple[list[IntakeItem], list[UnusedFile]]:
        """An item for each problem with a file, and the files that are in none.

        If a file that means no problem cannot be read, also an item for each problem without a file.
        """
        candidates: dict[str, list[Candidate]] = defaultdict(list)
        others: list[SubmittedFile] = []
        for item in self.listed:
            candidate = recognize.by_name(item) if _is_code(item) else None
            if candidate:
                candidates[candidate.problem].append(candidate)
            else:
                others.append(item)
        missing = {problem.name for problem in problems} - candidates.keys()
        code = [item for item in others if _is_code(item) and not item.file.refused]
        searched = code[: recognize.MOST_SEARCHED] if missing else []
        for item in searched:
            for name in recognize.by_definitions(item) & missing:
                candidates[name].append(Candidate(item, name))
        self._chosen = {name: choose(rivals) for name, rivals in candidates.items()}
        unreadable = next((f"{item.file.path} {item.file.refused}" for item in others if item.file.refused), None)
        items = []
        for problem in problems:
            if choice := self._chosen.get(problem.name):
                items.append(self._item(problem, choice))
            elif unreadable:
                reason = f"no file for it can be read: {unreadable}"
                items.append(IntakeItem(self.learner, problem.name, refused=reason))
        return items, [*self._unused(candidates, {problem.name for problem in problems}, searched)]

    def _item(self, problem: Problem, choice: Choice) -> IntakeItem:
        if choice.file is None:
            return IntakeItem(self.learner, problem.name, refused=choice.refused)
        path, stamp = choice.file.file.path, choice.file.stamp
        self._used.add(path)
        item = IntakeItem(
            self.learner, problem.name, str(path), notes=choice.notes, submitted=stamp.time, late=stamp.late
        )
        try:
            text, reading_notes = self._text(problem, choice.file)
            sources = imports.with_imports(problem.name, text, self._beside)
        except UnreadableSubmissionError as error:
            return replace(item, refused=str(error))
        return replace(item, submission=Submission(path.name, sources), notes=(*choice.notes, *reading_notes))

    def _beside(self, name: str) -> str | None:
        choice = self._chosen.get(name)
        if choice is None or choice.file is None:
            return None
        self._used.add(choice.file.file.path)
        try:
            return self._text(catalog.load(name), choice.file)[0]
        except UnreadableSubmissionError as error:
            raise submission.unusable_import(str(error)) from None

    def _text(self, problem: Problem, item: SubmittedFile) -> tuple[str, list[str]]:
        """The Python text of a file, and notes on how it was read. Raises UnreadableSubmissionError.

        Each is read once: all problems of a learner may import it.
        """
        if problem.name not in self._texts:
            self._texts[problem.name] = _read(problem, item.file)
        return self._texts[problem.name]

    def _unused(
        self, candidates: Mapping[str, list[Candidate]], graded: set[str], searched: Sequence[SubmittedFile]
    ) -> Iterator[UnusedFile]:
        """The files that are in no item, in order, each with the reason."""
        meant = {c.submitted.file.path: c.problem for rivals in candidates.values() for c in rivals}
        looked_into = {item.file.path for item in searched}
        for item in self.listed:
            path = item.file.path
            if path in self._used:
                continue
            if item.file.refused:
                reason = item.file.refused
            elif problem := meant.get(path):
                choice = self._chosen[problem]
                if problem not in graded:
                    reason = f"is for problem {ProblemName(problem).label}, {_NOT_GRADED}"
                else:
                    reason = f"{_NOT_CHOSEN}: {choice.refused or choice.notes[-1]}"
            elif archive.is_archive(path):
                reason = "is an archive inside an archive; submit the files themselves"
            elif not _is_code(item):
                reason = "is neither a .py file nor a notebook"
            elif path in looked_into:
                reason = "has no problem's name and defines nothing that is graded here"
            else:
                reason = "has no problem's name"
            yield UnusedFile(self.learner, str(path), reason)


def _read(problem: Problem, file: File) -> tuple[str, list[str]]:
    if file.refused:
        raise UnreadableSubmissionError(f"{file.path.name} {file.refused}.")
    try:
        data = file.read(submission.most_bytes(file.path.name) + 1)
    except RefusedFileError as error:
        raise UnreadableSubmissionError(f"{file.path.name} {error}.") from None
    return submission.text(problem, file.path.name, data)
