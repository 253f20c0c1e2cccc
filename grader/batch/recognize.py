"""Recognizes the problem that a learner's file is for, by its name or by its definitions."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from commandline.problem_name import ProblemName
from grader.batch.archive import RefusedFileError
from grader.batch.exports import SubmittedFile
from grader.course import catalog
from grader.judge import notebook, submission

SUFFIXES = (".py", ".ipynb")
MOST_SEARCHED = 50  # files of one learner that are searched for definitions
_VERSION = re.compile(
    r"[ _-]?\((\d{1,9})\)$|-(\d{1,9})$"
)  # the endings that browsers and Canvas append to a name that already exists
_NUMBER = re.compile(r"(?:p|problem|task|exercise|ex|hw)?[ _-]?(\d{1,2})(?:[\W_].*)?", re.DOTALL)
_WORDS = re.compile(r"[^\W_]+")
# A file with one of these words after the problem's name is not what its learner wants graded.
_ASIDE = set(
    "backup bak check config demo draft example examples helper helpers main notes old orig original plot run scratch "
    "stub test tests util utils wip".split()
)


@dataclass(frozen=True)
class Candidate:
    """A file that may be a learner's submission for `problem`.

    `exact` is true if its name is exactly the problem's. `version` is the number that was appended to the name.
    """

    submitted: SubmittedFile
    problem: str
    exact: bool = False
    version: int = 0


@dataclass(frozen=True)
class Choice:
    """The file to grade for a problem, or the reason why there is none; and notes on the choice."""

    file: SubmittedFile | None
    refused: str = ""
    notes: tuple[str, ...] = ()


def choose(candidates: Sequence[Candidate]) -> Choice:
    """Returns the newest of a learner's files for a problem.

    The export's time stamps decide, then the order of its uploads, then whether a name is exactly the problem's, then
    the numbers that were appended to the names.
    """
    ranks = [_rank(candidate) for candidate in candidates]
    best = max(ranks)
    latest = [candidate for candidate, rank in zip(candidates, ranks, strict=True) if rank == best]
    path = latest[0].submitted.file.path
    if len(latest) > 1:
        return Choice(None, f"there are two files for it: {path} and {latest[1].submitted.file.path}; submit one")
    notes: tuple[str, ...] = () if latest[0].exact else (f"{path} was taken as the submission",)
    if len(candidates) > 1:
        place = next(place for place in range(len(best)) if len({rank[place] for rank in ranks}) > 1)
        why = (
            f"the latest of {len(candidates)} versions by the export's time stamps",
            f"the latest of {len(candidates)} versions by the order of uploads",
            f"the one of {len(candidates)} files with the problem's exact name",
            f"the latest of {len(candidates)} versions by the number in its name",
        )[place]
        notes += (f"{path} was graded, {why}",)
    return Choice(latest[0].submitted, notes=notes)


def _rank(candidate: Candidate) -> tuple[float, int, bool, int]:
    stamp = candidate.submitted.stamp
    return (stamp.time.timestamp() if stamp.time else 0.0, stamp.upload, candidate.exact, candidate.version)


def by_name(file: SubmittedFile) -> Candidate | None:
    """Returns the problem that a file's name means, whatever its case, with or without the number's zero, and with
    words after it.

    None if it means no problem, or if its number and its words mean two.
    """
    stem = file.file.path.stem.casefold()
    if (suffix := _VERSION.search(stem)) and (problem := _meant(stem[: suffix.start()])):
        return Candidate(file, problem, stem[: suffix.start()] == problem, int(suffix[1] or suffix[2]))
    problem = _meant(stem)
    return Candidate(file, problem, stem == problem) if problem else None


def present_name(name: str) -> str | None:
    """Returns the present name of the problem with the slug of that name: the course may have moved it."""
    known = ProblemName.parse(name)
    return _slugs().get(tuple(known.slug.split("_"))) if known else None


def _meant(stem: str) -> str | None:
    """Returns the problem that a stem means."""
    words = _WORDS.findall(stem)
    number = _NUMBER.fullmatch(stem)
    if words and _NUMBER.fullmatch(words[0]):
        words = words[1:]
    slug = next((slug for slug in _slugs() if tuple(words[: len(slug)]) == slug), ())
    named = {_slugs()[slug]} if slug else set()
    if number and (problem := _labels().get(f"{int(number[1]):02d}")):
        named.add(problem)
    return named.pop() if len(named) == 1 and not _ASIDE & set(words[len(slug) :]) else None


def by_definitions(file: SubmittedFile) -> set[str]:
    """Returns the problems whose entries a Python file or notebook defines. Entries that several problems share do not
    count."""
    name = file.file.path.name
    try:
        data = file.file.read(submission.most_bytes(name))
        text = notebook.code(data) if name.lower().endswith(".ipynb") else data.decode("utf-8", "replace")
    except (RefusedFileError, notebook.NotebookError):
        return set()
    return {_entries()[match[1] or match[2]] for match in _definition().finditer(text)}


@cache
def _labels() -> Mapping[str, str]:
    """Returns the problems by number. Cached, like the tables below, because it is used for every file of a class."""
    return {name.label: name for name in catalog.names()}


@cache
def _slugs() -> Mapping[tuple[str, ...], str]:
    """Returns the problems by the words of their slugs, apart and as one word, the longest first."""
    names = catalog.names()
    by_words = {words: name for name in names for words in (tuple(name.slug.split("_")), (name.slug.replace("_", ""),))}
    return {words: by_words[words] for words in sorted(by_words, key=len, reverse=True)}


@cache
def _entries() -> Mapping[str, str]:
    """Returns the problems by their entries' names."""
    pairs = [(entry.name, problem.name) for problem in catalog.problems() for entry in problem.entries]
    count = Counter(name for name, _ in pairs)
    return {name: problem for name, problem in pairs if count[name] == 1}


@cache
def _definition() -> re.Pattern[str]:
    names = "|".join(map(re.escape, _entries()))
    return re.compile(
        rf"^(?:(?:(?:async[ \t]+)?def|class)[ \t]+({names})\b|({names})[ \t]*(?::[^=\n]*)?=(?!=))", re.MULTILINE
    )
