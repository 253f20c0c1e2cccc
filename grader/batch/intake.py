"""Finds the submissions of a class: which learner, which problem, which file. Reads unmodified exports of course systems."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from commandline.errors import UsageError
from grader.batch.archive import File, RefusedFileError, files
from grader.course import catalog
from grader.judge import submission
from grader.judge.submission import MAX_SIZE, Submission, UnreadableSubmissionError
from grader.problem import Problem

_METADATA = "submission_metadata.yml"
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<user>\d+)_(?P<submission>\d+)_(?P<file>.+)")
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)")
_VERSION = re.compile(r"[ _-]?\((\d+)\)$|-(\d+)$")  # what browsers and Canvas append to a name that already exists
_NUMBER = re.compile(r"p?(\d{1,2})(?:[^0-9].*)?$")


@dataclass(frozen=True)
class IntakeItem:
    """One learner's work on one problem: a submission, or the reason why there is nothing to grade."""

    learner: str
    problem: str
    file: str = ""
    submission: Submission | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()


@dataclass
class Intake:
    """The submissions of a class. `layout` names the system whose layout was recognized; `notes` concern the whole class."""

    layout: str
    learners: list[str]
    items: list[IntakeItem]
    notes: list[str] = field(default_factory=list)


def read(source: Path, problems: Sequence[Problem]) -> Intake:
    """Reads the submissions for these problems from a folder or an archive. Raises UsageError if there is no learner in it."""
    listed = files(source)
    layout, grouped, notes = _by_learner(listed if source.is_dir() else _without_top_folder(listed))
    if not grouped:
        raise UsageError(
            f"{source} has no learners' folders. Give one folder per learner, or an export of Gradescope, Canvas or Moodle."
        )
    learners = sorted(grouped)
    items = [item for learner in learners for item in _learner_items(learner, grouped[learner], problems)]
    by_folded_name: dict[str, list[str]] = defaultdict(list)
    for learner in learners:
        by_folded_name[unicodedata.normalize("NFKC", learner).casefold().strip()].append(learner)
    for spellings in by_folded_name.values():
        if len(spellings) > 1:
            notes.append(f"{' and '.join(map(repr, spellings))} may be the same learner")
    return Intake(layout, learners, items, notes)


def submitted_problems(intake: Intake) -> list[str]:
    """The names of the problems that at least one learner submitted something for."""
    return sorted({item.problem for item in intake.items})


Grouped = dict[str, list[File]]


def _without_top_folder(listed: list[File]) -> list[File]:
    """The files without the one folder that many archives put around everything: learners' folders or the files of an export."""
    tops = {file.path.parts[0] for file in listed}
    has_files = any(len(file.path.parts) == 2 for file in listed)
    if len(tops) != 1 or min(len(file.path.parts) for file in listed) < 2 or (has_files and not _is_export(listed)):
        return listed
    return [_inside(file) for file in listed]


def _is_export(listed: list[File]) -> bool:
    return any(file.path.name == _METADATA or _CANVAS.fullmatch(file.path.name) for file in listed)


def _by_learner(listed: list[File]) -> tuple[str, Grouped, list[str]]:
    """The layout, the files of each learner, and notes."""
    grouped: Grouped = defaultdict(list)
    metadata = next((file for file in listed if str(file.path) == _METADATA), None)
    if metadata:
        names, notes = _gradescope_names(metadata)
        for file in listed:
            if len(file.path.parts) > 1:
                grouped[names.get(file.path.parts[0], file.path.parts[0])].append(_inside(file))
        return "Gradescope", grouped, notes
    notes, layouts = [], set()
    for file in listed:
        first, has_folder = file.path.parts[0], len(file.path.parts) > 1
        if match := _MOODLE.fullmatch(first):
            layouts.add("Moodle")
            key = f"{match['name']} ({match['user']})"
            grouped[key].append(_inside(file) if has_folder else _renamed(file, match["file"]))
        elif not has_folder and (match := _CANVAS.fullmatch(first)):
            layouts.add("Canvas")
            grouped[f"{match['name']} ({match['user']})"].append(_renamed(file, match["file"]))
        elif (match := _CANVAS.fullmatch(first)) and match["file"]:  # an archive submitted to Canvas
            layouts.add("Canvas")
            grouped[f"{match['name']} ({match['user']})"].append(_inside(file))
        elif has_folder:
            layouts.add("folders")
            grouped[first].append(_inside(file))
        else:
            notes.append(f"{first!r} is in no learner's folder and was skipped")
    return " and ".join(sorted(layouts)), grouped, notes


def _inside(file: File) -> File:
    return File(PurePosixPath(*file.path.parts[1:]), file.read, file.refused)


def _renamed(file: File, name: str) -> File:
    return File(PurePosixPath(name or file.path.name), file.read, file.refused)


def _gradescope_names(metadata: File) -> tuple[dict[str, str], list[str]]:
    """The learners' names by folder, from each row of `:submitters:`, with the student id or email address if there is one."""
    try:
        rows = yaml.safe_load(metadata.read(MAX_SIZE << 4).decode("utf-8"))
        names = {}
        for folder, row in rows.items():
            people = [_person(person) for person in row[":submitters"]]
            names[str(folder)] = " and ".join(people) or str(folder)
    except (RefusedFileError, yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError, RecursionError):
        return {}, [f"{_METADATA} cannot be read, so learners are named after their folders"]
    counts = Counter(names.values())
    return {folder: f"{name}, {folder}" if counts[name] > 1 else name for folder, name in names.items()}, []


def _person(person: Mapping[str, Any]) -> str:
    number = person.get(":sid") or person.get(":email")
    name = str(person.get(":name") or number)
    return f"{name} ({number})" if number and str(number) != name else name


@dataclass(frozen=True)
class _Candidate:
    """A file that may be a learner's submission for `problem`. `exact` says whether its name is the course's."""

    file: File
    problem: str
    exact: bool
    version: int


def _learner_items(learner: str, listed: list[File], problems: Iterable[Problem]) -> list[IntakeItem]:
    """An item for each problem with a file.

    If a file that matches no problem cannot be read, also an item for each problem without a file.
    """
    candidates: dict[str, list[_Candidate]] = defaultdict(list)
    refused = []
    for file in listed:
        candidate = _candidate(file)
        if candidate and file.path.suffix.lower() in (".py", ".ipynb"):
            candidates[candidate.problem].append(candidate)
        elif file.refused and not candidate:
            refused.append(f"{file.path} {file.refused}")
    chosen = {name: _choose(rivals) for name, rivals in candidates.items()}
    modules = {name: file for name, (file, _) in chosen.items()}
    items = []
    for problem in problems:
        if problem.name in chosen:
            file_or_reason, notes = chosen[problem.name]
            items.append(_item(learner, problem, file_or_reason, notes, modules))
        elif refused:
            items.append(IntakeItem(learner, problem.name, refused=f"no file for it can be read: {refused[0]}"))
    return items


def _candidate(file: File) -> _Candidate | None:
    """The problem that a file is for, by the file's name. None if it matches no problem."""
    stem, version = file.path.stem, 0
    if suffix := _VERSION.search(stem):
        stem, version = stem[: suffix.start()], int(suffix[1] or suffix[2])
    if problem := _problems_by_key().get(stem):
        return _Candidate(file, problem, stem.startswith("p"), version)
    number = _NUMBER.fullmatch(stem)
    problem = _problems_by_key().get(f"{int(number[1]):02d}") if number else None
    return _Candidate(file, problem, False, version) if problem else None


@cache
def _problems_by_key() -> dict[str, str]:
    """The names of the problems by name, slug and number. Cached: looked up for every file of a class."""
    names = catalog.names()
    return {key: name for name in names for key in (name, name.slug, name.label)}


def _choose(candidates: list[_Candidate]) -> tuple[File | str, list[str]]:
    """The file to grade, or the reason why there is none; and notes on the choice."""
    best = [candidate for candidate in candidates if candidate.exact] or candidates
    latest = max(candidate.version for candidate in best)
    latest_files = [candidate.file for candidate in best if candidate.version == latest]
    if len(latest_files) > 1:
        return f"there are two files for it: {latest_files[0].path} and {latest_files[1].path}; submit one", []
    path = latest_files[0].path
    notes = [f"{path} was taken as the submission"] if not best[0].exact else []
    notes += [f"{path} was graded, the latest of {len(best)} versions"] if len(best) > 1 else []
    return latest_files[0], notes


def _item(
    learner: str, problem: Problem, file: File | str, notes: list[str], modules: Mapping[str, File | str]
) -> IntakeItem:
    """The item of a file. A text instead of a file says why there is none to grade."""
    if isinstance(file, str):
        return IntakeItem(learner, problem.name, refused=file)
    path = str(file.path)

    def beside(name: str) -> str | None:
        other = modules.get(name)
        if not isinstance(other, File):
            return None
        try:
            return _text(catalog.load(name), other)[0]
        except UnreadableSubmissionError as error:
            raise submission.unusable_import(str(error)) from None

    try:
        text, reading_notes = _text(problem, file)
        sources = catalog.with_imports(problem.name, text, beside)
    except UnreadableSubmissionError as error:
        return IntakeItem(learner, problem.name, path, refused=str(error), notes=tuple(notes))
    return IntakeItem(learner, problem.name, path, Submission(file.path.name, sources), notes=(*notes, *reading_notes))


def _text(problem: Problem, file: File) -> tuple[str, list[str]]:
    """The Python text of a file, and notes on how it was read. Raises UnreadableSubmissionError."""
    if file.refused:
        raise UnreadableSubmissionError(f"{file.path.name} {file.refused}.")
    try:
        data = file.read(submission.most_bytes(file.path.name) + 1)
    except RefusedFileError as error:
        raise UnreadableSubmissionError(f"{file.path.name} {error}.") from None
    return submission.text(problem, file.path.name, data)
