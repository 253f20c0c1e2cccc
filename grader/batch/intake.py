"""What a class handed in: which learner, which problem, which file. Reads the exports of course systems as they come."""

import re
import unicodedata
from collections import defaultdict
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
_AGAIN = re.compile(r"[ _-]?\((\d+)\)$|-(\d+)$")  # what browsers and Canvas add to a name that is there already
_NUMBER = re.compile(r"p?(\d{1,2})(?:[^0-9].*)?$")


@dataclass(frozen=True)
class Handed:
    """What one learner handed in for one problem: a submission, or a sentence on why there is none to grade."""

    learner: str
    problem: str
    file: str = ""
    submission: Submission | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()


@dataclass
class Intake:
    """Everything of a class, and what is to be said of it as a whole. `layout` is how it was read."""

    layout: str
    learners: list[str]
    handed: list[Handed]
    notes: list[str] = field(default_factory=list)


def read(source: Path, problems: Sequence[Problem]) -> Intake:
    """What a folder or an archive holds of these problems. Raises UsageError if it holds no learner."""
    found = files(source)
    layout, grouped, notes = _by_learner(found if source.is_dir() else _below_one_top(found))
    if not grouped:
        raise UsageError(
            f"{source} holds no learner's folder: it takes one folder for each, or an export of Gradescope, Canvas or Moodle."
        )
    handed = []
    for learner in sorted(grouped):
        handed += _of_learner(learner, grouped[learner], problems)
    learners = sorted(grouped)
    alike: dict[str, list[str]] = defaultdict(list)
    for learner in learners:
        alike[unicodedata.normalize("NFKC", learner).casefold().strip()].append(learner)
    notes += [f"{' and '.join(map(repr, same))} may be the same learner" for same in alike.values() if len(same) > 1]
    return Intake(layout, learners, handed, notes)


def handed_problems(intake: Intake) -> list[str]:
    """The problems that somebody handed something in for."""
    return sorted({item.problem for item in intake.handed})


Grouped = dict[str, list[File]]


def _below_one_top(found: list[File]) -> list[File]:
    """Without a folder around all learners' folders, as many archives have it: it holds folders, or an export's files."""
    tops = {file.path.parts[0] for file in found}
    has_files = any(len(file.path.parts) == 2 for file in found)
    if len(tops) != 1 or min(len(file.path.parts) for file in found) < 2 or (has_files and not _is_export(found)):
        return found
    return [File(PurePosixPath(*file.path.parts[1:]), file.read, file.refused) for file in found]


def _is_export(found: list[File]) -> bool:
    return any(file.path.name == _METADATA or _CANVAS.fullmatch(file.path.name) for file in found)


def _by_learner(found: list[File]) -> tuple[str, Grouped, list[str]]:
    grouped: Grouped = defaultdict(list)
    metadata = next((file for file in found if str(file.path) == _METADATA), None)
    if metadata:
        names, notes = _gradescope_names(metadata)
        for file in found:
            if len(file.path.parts) > 1:
                grouped[names.get(file.path.parts[0], file.path.parts[0])].append(_inside(file))
        return "Gradescope", grouped, notes
    notes, layouts = [], set()
    for file in found:
        first, inside = file.path.parts[0], len(file.path.parts) > 1
        if match := _MOODLE.fullmatch(first):
            layouts.add("Moodle")
            key = f"{match['name']} ({match['user']})"
            grouped[key].append(_inside(file) if inside else _renamed(file, match["file"]))
        elif not inside and (match := _CANVAS.fullmatch(first)):
            layouts.add("Canvas")
            grouped[f"{match['name']} ({match['user']})"].append(_renamed(file, match["file"]))
        elif (match := _CANVAS.fullmatch(first)) and match["file"]:  # an archive handed in to Canvas
            layouts.add("Canvas")
            grouped[f"{match['name']} ({match['user']})"].append(_inside(file))
        elif inside:
            layouts.add("folders")
            grouped[first].append(_inside(file))
        else:
            notes.append(f"{first!r} lies beside the learners' folders and is left out")
    return " and ".join(sorted(layouts)), grouped, notes


def _inside(file: File) -> File:
    return File(PurePosixPath(*file.path.parts[1:]), file.read, file.refused)


def _renamed(file: File, name: str) -> File:
    return File(PurePosixPath(name or file.path.name), file.read, file.refused)


def _gradescope_names(metadata: File) -> tuple[dict[str, str], list[str]]:
    """The learners' names by folder: `:submitters:` of each row, with the id or the address if they have one."""
    try:
        rows = yaml.safe_load(metadata.read(MAX_SIZE << 4).decode("utf-8"))
        names = {}
        for folder, row in rows.items():
            people = [_person(person) for person in row[":submitters"]]
            names[str(folder)] = " and ".join(people) or str(folder)
    except (RefusedFileError, yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError, RecursionError):
        return {}, [f"{_METADATA} cannot be read, so learners are named by their folders"]
    twice = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {folder: f"{name}, {folder}" if name in twice else name for folder, name in names.items()}, []


def _person(person: Mapping[str, Any]) -> str:
    number = person.get(":sid") or person.get(":email")
    name = str(person.get(":name") or number)
    return f"{name} ({number})" if number and str(number) != name else name


def _of_learner(learner: str, found: list[File], problems: Iterable[Problem]) -> list[Handed]:
    candidates: dict[str, list[tuple[bool, int, File]]] = defaultdict(list)
    for file in found:
        if file.path.suffix.lower() in (".py", ".ipynb"):
            name, exact, version = _problem_of(file.path)
            if name:
                candidates[name].append((exact, version, file))
    refused = [f"{file.path} {file.refused}" for file in found if file.refused and not _problem_of(file.path)[0]]
    handed = []
    modules = {name: _chosen(rows)[0] for name, rows in candidates.items()}
    for problem in problems:
        if problem.name in candidates:
            chosen, notes = _chosen(candidates[problem.name])
            handed.append(_handed(learner, problem, chosen, notes, modules))
        elif refused:
            handed.append(Handed(learner, problem.name, refused=f"nothing for it can be read: {refused[0]}"))
    return handed


def _problem_of(path: PurePosixPath) -> tuple[str, bool, int]:
    """The problem that a file is for, or ""; whether its name is the course's; and which version of it this is."""
    stem, version = path.stem, 0
    if again := _AGAIN.search(stem):
        stem, version = stem[: again.start()], int(again[1] or again[2])
    if stem in _known():
        return _known()[stem], stem.startswith("p"), version
    number = _NUMBER.fullmatch(stem)
    return _known().get(f"{int(number[1]):02d}", "") if number else "", False, version


@cache
def _known() -> dict[str, str]:
    """The problems by name, by slug and by number. Looked up for every file of a class, and always the same."""
    names = catalog.names()
    return {key: name for name in names for key in (name, name.slug, name.label)}


def _chosen(rows: list[tuple[bool, int, File]]) -> tuple[File | str, list[str]]:
    """The file that counts, or a sentence on why none does; and what to say of the choice."""
    best = [row for row in rows if row[0]] or rows
    newest = max(version for _, version, _ in best)
    top = [file for _, version, file in best if version == newest]
    if len(top) > 1:
        return f"there are two files for it: {top[0].path} and {top[1].path}; hand in one", []
    notes = [f"{top[0].path} was taken for it"] if not best[0][0] else []
    notes += [f"the latest of {len(best)} versions, {top[0].path}, was taken"] if len(best) > 1 else []
    return top[0], notes


def _handed(
    learner: str, problem: Problem, file: File | str, notes: list[str], modules: Mapping[str, File | str]
) -> Handed:
    if isinstance(file, str):
        return Handed(learner, problem.name, refused=file)
    path = str(file.path)

    def beside(name: str) -> str | None:
        other = modules.get(name)
        if not isinstance(other, File):
            return None
        try:
            return _text(catalog.load(name), other)[0]
        except UnreadableSubmissionError:
            return None

    try:
        text, said = _text(problem, file)
    except UnreadableSubmissionError as error:
        return Handed(learner, problem.name, path, refused=str(error), notes=tuple(notes))
    sources = catalog.with_imports(problem.name, text, beside)
    return Handed(learner, problem.name, path, Submission(file.path.name, sources), notes=(*notes, *said))


def _text(problem: Problem, file: File) -> tuple[str, list[str]]:
    """The Python text of a file. Raises UnreadableSubmissionError."""
    if file.refused:
        raise UnreadableSubmissionError(f"{file.path.name} {file.refused}.")
    try:
        data = file.read(submission.most_bytes(file.path.name) + 1)
    except RefusedFileError as error:
        raise UnreadableSubmissionError(f"{file.path.name} {error}.") from None
    return submission.text(problem, file.path.name, data)
