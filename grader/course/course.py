"""A course: a folder with problems and their solutions, and `course.toml`, which says what the course consists of."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.errors import CourseError
from grader.paths import ROOT

FILE = "course.toml"
BEYOND = "Beyond the course"  # the part of the problems that course.toml does not list
HIGHEST = 99
STYLES = "tests/problems/styles"  # correct programs in other styles than the references
FORGERIES = "tests/attacks/forgeries"  # programs that claim work which they do not do
# What each kind of table in `course.toml` may hold, and what it means.
COURSE_KEYS = {
    "title": "The name of the course, as learners read it.",
    "private": "Learners are shown no solutions.",
    "part": "The parts of the course, in order.",
}
PART_KEYS = {
    "title": "The name of the part.",
    "optional": "Learners may leave the part out.",
    "problems": "The problems of the part, in order.",
}
ROW_KEYS = {
    "problem": "A problem of this course, from `problems/pNN_slug`, by slug or as `pNN_slug`.",
    "include": "A problem of GPT Kata, by slug or number.",
    "points": "Its points here: a multiple of those of its checks.",
}
_FOLDERS = ("problems", "solutions", "tests")
_MODULE = re.compile(r"\bp\d\d_([a-z0-9_]+)\b")
_NUMBER = re.compile(r"(^# |\b[Pp]roblem )(\d\d)\b", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """A problem in a course: its name there, its part, the folder of its files, and its points if the course sets them.

    An `optional` one belongs to a part that learners may leave out.
    """

    name: ProblemName
    part: str
    folder: Path
    points: int = 0
    optional: bool = False

    @property
    def home(self) -> Path:
        """The folder of the course that the files belong to: another one for an included problem."""
        return self.folder.parent.parent


@dataclass(frozen=True)
class Course:
    """A course. Learners of a `private` one are not shown its solutions."""

    root: Path
    title: str
    private: bool
    problems: tuple[Listed, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Listed]:
        return {listed.name: listed for listed in self.problems}

    @cached_property
    def by_slug(self) -> Mapping[str, Listed]:
        return {listed.name.slug: listed for listed in self.problems}

    def number_of(self, number: str, home: Path) -> str | None:
        """The number here, as two digits, of the problem whose folder in the course `home` begins with a number."""
        found = (listed for listed in self.problems if listed.home == home and listed.folder.name[1:3] == number)
        return next((listed.name.label for listed in found), None)

    def renamed(self, text: str, home: Path) -> str:
        """A file of the course in `home`, with the names and numbers that its problems have in this course."""

        def module(match: re.Match[str]) -> str:
            listed = self.by_slug.get(match[1])
            return listed.name if listed else match[0]

        def number(match: re.Match[str]) -> str:
            if here := self.number_of(match[2], home):
                return match[1] + here
            return match[0] if home == self.root or match[1] == "# " else f"{match[0]} of {title_of(home)}"

        if home == self.root and all(listed.name == listed.folder.name for listed in self.problems):
            return text
        return _NUMBER.sub(number, _MODULE.sub(module, text))


def secret_folders(roots: Iterable[Path]) -> tuple[Path, ...]:
    """The folders of courses that hold solutions, or what tells about them: no submission may read them."""
    return tuple(root / name for root in dict.fromkeys(roots) for name in _FOLDERS)


def read(root: Path) -> Course:
    """The course in a folder. Raises CourseError, which names the file, if its `course.toml` is not sound."""
    table = _table(root)
    _known_keys(root, table, COURSE_KEYS, "")
    private = _flag(root, table, "private", "")
    return Course(root, _title(root, table, ""), private, tuple(_problems(root, table)))


def title_of(root: Path) -> str:
    """The title of the course in a folder. Raises CourseError."""
    return _title(root, _table(root), "")


def problem_folders(root: Path) -> list[Path]:
    """The folders of the problems that a course has of its own, by name."""
    return sorted(path for path in (root / "problems").glob("p[0-9][0-9]_*") if path.is_dir())


def as_toml(course: Course, names: Iterable[str]) -> dict[str, Any]:
    """The table of a `course.toml` with a selection of a course's problems, which keep their numbers."""
    parts: dict[str, dict[str, Any]] = {}
    for listed in (course.by_name[name] for name in names):
        row = {"problem": str(listed.name), "points": listed.points} if listed.points else str(listed.name)
        optional = {"optional": True} if listed.optional else {}
        parts.setdefault(listed.part, {"title": listed.part, **optional, "problems": []})["problems"].append(row)
    rows = list(parts.values())
    return {"title": course.title, "private": course.private, "part": rows}


def _table(root: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise CourseError(f"{root / FILE} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{root / FILE} is not valid TOML: {error}.") from None


def _problems(root: Path, table: Mapping[str, Any]) -> Iterator[Listed]:
    """The problems in the order of `course.toml`, then those that it does not list."""
    parts = table.get("part", [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _unsound(root, "write each part as a table `[[part]]`")
    own: dict[str, Path] = {}
    for folder in problem_folders(root):
        name = ProblemName(folder.name)
        if other := own.get(name.slug):
            raise CourseError(f"{folder} and {other.name} have the same slug; rename one of them.")
        own[name.slug] = folder
    taken, numbers, last = set[str](), set[int](), 0
    for place, part in enumerate(parts, 1):
        where = f"part {place}"
        _known_keys(root, part, PART_KEYS, where)
        title, rows, optional = _title(root, part, where), part.get("problems"), _flag(root, part, "optional", where)
        if not isinstance(rows, list):
            raise _unsound(root, f"{where} must list its `problems`")
        for place_in_part, row in enumerate(rows):
            name, folder, points = _row(root, row, own, where)
            if name.slug in taken:
                raise _unsound(root, f"{name.slug} is listed twice")
            number = name.number or last + 1
            lowest = 1 if place_in_part == 0 and name.number else last + 1  # a part may begin at any number
            if not lowest <= number <= HIGHEST:
                raise _unsound(root, f"{name} must have a number from {lowest} to {HIGHEST}")
            if number in numbers:
                raise _unsound(root, f"{name} would have the number {number:02}, which another problem has")
            taken.add(name.slug)
            numbers.add(number)
            last = number
            yield Listed(ProblemName(f"p{number:02}_{name.slug}"), title, folder, points, optional)
    last = max(numbers, default=0)
    for slug, folder in own.items():
        if slug not in taken and (folder / "problem.py").is_file():
            last = max(last + 1, ProblemName(folder.name).number)
            if last > HIGHEST:
                raise CourseError(f"{folder} has no number left: the last one is {HIGHEST}.")
            yield Listed(ProblemName(f"p{last:02}_{slug}"), BEYOND, folder)


def _row(root: Path, row: Any, own: Mapping[str, Path], where: str) -> tuple[ProblemName, Path, int]:
    """A row of a part: the problem's name, with the number 00 if the row has none, its folder and its points."""
    table = {"problem": row} if isinstance(row, str) else row
    if not isinstance(table, dict) or len({"problem", "include"} & table.keys()) != 1:
        raise _unsound(
            root,
            f'{where} has {row!r}, which is no problem; write "slug", or {{ include = "slug" }} for one of GPT Kata\'s',
        )
    _known_keys(root, table, ROW_KEYS, where)
    points = table.get("points", 0)
    if type(points) is not int or points < 0:
        raise _unsound(root, f"{where} gives {row!r} points that are not a whole number above 0")
    word = str(table.get("problem", table.get("include")))
    name = ProblemName.parse(word) or ProblemName(f"p00_{word}")
    if "problem" in table:
        if name.slug not in own:
            raise _unsound(
                root,
                f"{where} lists {word!r}, but there is no folder problems/pNN_{name.slug}{_similar(name.slug, own)}",
            )
        return name, own[name.slug], points
    if root == ROOT:
        raise _unsound(root, f"{where} includes {word!r}, but GPT Kata can include no problem of its own")
    shipped = read(ROOT)
    if word.isdecimal():
        found = next((listed for listed in shipped.problems if listed.name.number == int(word)), None)
    else:
        found = shipped.by_slug.get(name.slug)
    if found is None:
        raise _unsound(
            root, f"{where} includes {word!r}, which GPT Kata does not have{_similar(word, shipped.by_slug)}"
        )
    return name if ProblemName.parse(word) else ProblemName(f"p00_{found.name.slug}"), found.folder, points


def _flag(root: Path, table: Mapping[str, Any], key: str, where: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise _unsound(root, f"`{key}`{where and f' of {where}'} must be true or false")
    return value


def _title(root: Path, table: Mapping[str, Any], where: str) -> str:
    title = table.get("title")
    if not isinstance(title, str) or not title.strip() or not title.isprintable():
        raise _unsound(root, f"{where or 'the course'} needs a `title`, in one line")
    return title


def _known_keys(root: Path, table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise _unsound(root, f"{where or 'the course'} cannot have {key!r}{_similar(key, known)}")


def _similar(word: str, known: Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def _unsound(root: Path, reason: str) -> CourseError:
    return CourseError(f"{root / FILE}: {reason}{'' if reason.endswith('?') else '.'}")
