"""Finds the submissions of one learner: which problem, which file. Runs in a process of its own for each learner."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from commandline.problem_name import ProblemName
from commandline.text import one_line
from grader.batch import archive, recognize, similarity
from grader.batch.archive import File, RefusedFileError
from grader.batch.exports import Learner, SubmittedFile
from grader.batch.hand_ins import HandIn
from grader.batch.recognize import SUFFIXES, Candidate, Choice, choose
from grader.course import catalog, imports
from grader.judge import submission
from grader.judge.submission import Submission, UnreadableSubmissionError
from grader.practice import assigned
from grader.problem import Problem

MOST_SHEET = 1 << 16  # bytes of a sheet of hunts
NOT_CHOSEN = "is not the submission for its problem"
NOT_GRADED = "which is not graded here"  # the end of the reason why a file for another problem is not used


@dataclass(frozen=True)
class IntakeItem:
    """One learner's work on one problem: a submission, or the reason why there is nothing to grade.

    Attributes:
        learner: The learner's name.
        problem: The problem's name.
        file: The path of the file; empty if there is none.
        submission: The submission; None if there is nothing to grade.
        refused: The reason why there is nothing to grade.
        notes: Sentences on how the file was chosen and read.
        submitted: The time of the export's stamp.
        late: The export's own mark.
        members: The names of the group that handed it in, if one did.
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
        return self.reason.endswith(NOT_GRADED)

    @property
    def may_be_a_submission(self) -> bool:
        """Whether the file could be meant for a problem that nothing was handed in for: its own problem is not
        known."""
        return not self.is_for_another_problem and not self.reason.startswith(NOT_CHOSEN)


def collected(name: str, learner: Learner, problems: Sequence[Problem]) -> list[list[Any]]:
    """Returns the items of a learner and the files that are in none, as JSON values."""
    items, unused = _of_learner(name, expanded(learner), problems)
    return [[_encoded(item) for item in items], [dataclasses.astuple(file) for file in unused]]


def _encoded(item: IntakeItem) -> dict[str, Any]:
    source, time = item.submission, item.submitted
    return {
        **{field.name: getattr(item, field.name) for field in dataclasses.fields(item)},
        "submission": (source.filename, dict(source.sources)) if source else None,
        "submitted": time.isoformat() if time else "",
    }


def _of_learner(
    name: str, listed: Sequence[SubmittedFile], problems: Sequence[Problem]
) -> tuple[list[IntakeItem], list[UnusedFile]]:
    """Returns the items of a learner, and the unused files. The files of each group are kept apart from the learner's
    own, and those of each attempt from others."""
    items, unused = list[IntakeItem](), list[UnusedFile]()
    parts: dict[tuple[str, HandIn | None], list[SubmittedFile]] = {} if listed else {("", None): []}
    for item in listed:
        parts.setdefault((item.members, item.hand_in), []).append(item)
    for (members, hand_in), files in sorted(parts.items(), key=lambda part: part[0][0]):
        meant = _problem_of(hand_in) if hand_in else ""
        wanted = [problem for problem in problems if problem.name == meant] if hand_in else problems
        own, left = _LearnerFiles(name, files).items(wanted)
        items += [replace(item, members=members) for item in own]
        unused += left
    return items, unused


def _problem_of(hand_in: HandIn) -> str:
    """Returns the present name of the problem that an attempt was handed in for."""
    return recognize.present_name(hand_in.problem) or hand_in.problem


def recognized(learner: Learner, of: Callable[[SubmittedFile], set[str]], most: int | None) -> list[str]:
    """Returns the problems that a learner's files are for, by their names or by the definitions in the first `most` of
    them."""
    searched = [item for item in expanded(learner) if _is_code(item)][:most]
    return sorted(set[str]().union(*map(of, searched)))


def expanded(learner: Learner) -> list[SubmittedFile]:
    """Returns the learner's files, by path. Those in an archive have the stamp of the archive."""
    archives = archive.Expansion()
    found = [replace(item, file=file) for item in learner.files for file in archives.files(item.file)]
    return sorted(found, key=lambda item: item.file.path.parts)


def named(item: SubmittedFile) -> set[str]:
    """Returns the problem that a file's name means, if it means one. Of an attempt, that is the problem that it was
    handed in for, not one that it imports."""
    if item.hand_in:
        return {_problem_of(item.hand_in)} & set(catalog.names())
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
        """Returns an item for each problem with a file, and the files that are in none.

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
        choice = self._chosen.get(recognize.present_name(name) or name)
        if choice is None or choice.file is None:
            return None
        self._used.add(choice.file.file.path)
        try:
            return self._text(catalog.load(recognize.present_name(name) or name), choice.file)[0]
        except UnreadableSubmissionError as error:
            raise submission.unusable_import(str(error)) from None

    def _text(self, problem: Problem, item: SubmittedFile) -> tuple[str, list[str]]:
        """Returns the Python text of a file, and notes on how it was read. Raises UnreadableSubmissionError.

        Each is read once: all problems of a learner may import it.
        """
        if problem.name not in self._texts:
            self._texts[problem.name] = _read(problem, item.file)
        return self._texts[problem.name]

    def _unused(
        self, candidates: Mapping[str, list[Candidate]], graded: set[str], searched: Sequence[SubmittedFile]
    ) -> Iterator[UnusedFile]:
        """Yields the files that are in no item, in order, each with the reason."""
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
                    reason = f"is for problem {ProblemName(problem).label}, {NOT_GRADED}"
                else:
                    reason = f"{NOT_CHOSEN}: {choice.refused or choice.notes[-1]}"
            elif archive.is_archive(path):
                reason = "is an archive inside an archive; submit the files themselves"
            elif not _is_code(item):
                reason = "is neither a .py file nor a notebook"
            elif path in looked_into:
                reason = "has no problem's name and defines nothing that is graded here"
            else:
                reason = "has no problem's name"
            yield UnusedFile(self.learner, str(path), reason)


def known(learner: Learner, problems: Sequence[Problem]) -> list[list[Any]]:
    """Returns the sequences of tokens of all files for one of these problems, as JSON values.

    A row holds the problem, the path, the sequences and, if the file cannot be read, the reason.
    """
    found = list[list[Any]]()
    for item in filter(_is_code, expanded(learner)):
        meant = named(item) or (set() if item.file.refused else recognize.by_definitions(item))
        for problem in (problem for problem in problems if problem.name in meant):
            path = str(item.file.path)
            try:
                text, _ = _read(problem, item.file)
                found.append([problem.name, path, sorted(similarity.sequences(text)), ""])
            except UnreadableSubmissionError as error:
                found.append([problem.name, path, [], str(error).rstrip(".")])
    return found


def _read(problem: Problem, file: File) -> tuple[str, list[str]]:
    if file.refused:
        raise UnreadableSubmissionError(f"{file.path.name} {file.refused}.")
    try:
        data = file.read(submission.most_bytes(file.path.name) + 1)
    except RefusedFileError as error:
        raise UnreadableSubmissionError(f"{file.path.name} {error}.") from None
    return submission.text(problem, file.path.name, data)


def sheet(learner: Learner) -> dict[str, Any]:
    """Returns a learner's sheet of hunts and the texts of the Python files beside it, as JSON values. The last sheet
    counts."""
    submitted = {item.file.path.name: item for item in expanded(learner)}
    files = {name: item.file for name, item in submitted.items()}
    if assigned.SHEET not in files:
        return {"unreadable": f"there is no {assigned.SHEET} among the files"} if files else {}
    stamp = submitted[assigned.SHEET].stamp
    try:
        of, answers = assigned.answers(files[assigned.SHEET].read(MOST_SHEET).decode("utf-8-sig"))
    except (RefusedFileError, ValueError) as error:
        return {"unreadable": f"the sheet cannot be read: {one_line(str(error))}"}
    texts, refused = dict[str, str](), dict[str, str]()
    for name in {answer.file for answer in answers} & files.keys():
        try:
            texts[name] = submission.python_text(name, files[name].read(submission.MAX_SIZE + 1))
        except (RefusedFileError, UnreadableSubmissionError) as error:
            refused[name] = one_line(str(error))
    return {
        "of": of,
        "answers": [dataclasses.astuple(answer) for answer in answers],
        "texts": texts,
        "refused": refused,
        "file": str(files[assigned.SHEET].path),
        "submitted": stamp.time.isoformat() if stamp.time else "",
        "late": stamp.late,
    }
