"""A course: a folder with problems and their solutions, and `course.toml`, which lists the contents."""

import re
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.errors import CourseError
from grader.paths import ROOT

FILE = "course.toml"
BEYOND = "Beyond the course"  # the part of the problems that course.toml does not list
STYLES = "tests/problems/styles"  # correct programs in other styles than the references
FRAMES = "solutions/frames"  # those of them that learners meet in reviews, without their core
FORGERIES = "tests/attacks/forgeries"  # programs that claim work which they do not do
# The keys of each kind of table in `course.toml`, with their meanings.
COURSE_KEYS = {
    "title": "The name of the course, as learners read it.",
    "private": "Learners are shown no solutions.",
    "part": "The parts of the course, in order.",
    "path": "The paths through the course: selections of its problems for those who want one thing first.",
    "task": "The open tasks of the course, in order.",
}
PART_KEYS = {
    "title": "The name of the part.",
    "optional": "Learners may leave the part out.",
    "done": "What learners have when they have passed the part, and the command that shows it.",
    "built": "What learners have built in the part, as their certificate says it.",
    "problems": "The problems of the part, in order.",
}
ROW_KEYS = {
    "problem": "A problem of this course: the name of its folder in `problems/`, `pNN_slug`.",
    "include": "A problem of GPT Kata: its name there, `pNN_slug`.",
    "points": "Its points here: a multiple of those of its checks.",
    "cold": "Its page shows less until it has passed: no sketch, no pitfalls, no predictions.",
}
PATH_KEYS = {
    "name": "The word by which commands name the path.",
    "title": "The title, as learners read it.",
    "then": "What one can do afterwards, in a sentence.",
    "built": "What learners have built on the path, as their certificate says it while a part is not whole.",
    "problems": "The problems of the path, in order.",
}
STEP_KEYS = {
    "problem": "A problem of the course: its name, `pNN_slug`.",
    "done": "What learners have when they have passed the path up to here, and the command that shows it.",
}
TASK_KEYS = {
    "name": "The name of the task: that of its folder in `tasks/`.",
    "after": "The problem that the task comes after, `pNN_slug`.",
}
_FOLDERS = ("problems", "tasks", "solutions", "tests")
# The kinds of values in the JSON schema.
_TITLE = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean", "default": False}
_NAME = {"type": "string", "pattern": f"^{ProblemName.PATTERN.pattern}$"}
_TASK_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Listed:
    """A problem in a course: its part, the folder of its files, and its points if the course sets them.

    An `optional` one belongs to a part that learners may leave out. The page of a `cold` one shows less at first.
    """

    part: str
    folder: Path
    points: int = 0
    cold: bool = False
    optional: bool = False

    @property
    def name(self) -> ProblemName:
        return ProblemName(self.folder.name)

    @property
    def home(self) -> Path:
        """The folder of the course that the files belong to: another one for an included problem."""
        return self.folder.parent.parent


@dataclass(frozen=True)
class ListedTask:
    """An open task in a course: the folder of its files, and the problem that it comes after."""

    folder: Path
    after: ProblemName

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True)
class ListedPath:
    """A path through a course: its name, its title, what one can do afterwards, what one has built, and the names of
    its problems. `done` says by name of a problem what learners have when they have come so far."""

    name: str
    title: str
    then: str
    built: str
    problems: tuple[ProblemName, ...]
    done: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Course:
    """A course. Learners of a `private` one are not shown its solutions. `done` says by title of a part what learners
    have when they have passed it, and `built` what they have built."""

    root: Path
    title: str
    private: bool
    problems: tuple[Listed, ...]
    tasks: tuple[ListedTask, ...] = ()
    paths: tuple[ListedPath, ...] = ()
    done: Mapping[str, str] = field(default_factory=dict)
    built: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:  # a command looks up hundreds of things by the course
        return hash(self.root)

    @cached_property
    def by_name(self) -> Mapping[str, Listed]:
        return {listed.name: listed for listed in self.problems}

    @cached_property
    def numbers(self) -> Mapping[Path, frozenset[int]]:
        """The numbers of the problems by the folder of the course that their files belong to."""
        homes = {listed.name: listed.home for listed in self.problems}
        return {
            home: frozenset(name.number for name, other in homes.items() if other == home)
            for home in dict.fromkeys(homes.values())
        }


def secret_folders(roots: Iterable[Path]) -> tuple[Path, ...]:
    """Returns the folders of courses that hold solutions or reveal something of them: no submission may read them."""
    return tuple(root / name for root in dict.fromkeys(roots) for name in _FOLDERS)


def read(root: Path) -> Course:
    """Returns the course in a folder. Raises CourseError, which names the file, if its `course.toml` is not sound."""
    table = _table(root)
    _known_keys(root, table, COURSE_KEYS, "")
    private = _flag(root, table, "private", "")
    problems = tuple(_problems(root, table))
    done, built = (
        {part["title"]: str(part[key]) for part in table.get("part", []) if key in part} for key in ("done", "built")
    )
    tasks, paths = tuple(_tasks(root, table, problems)), tuple(_paths(root, table, problems))
    return Course(root, _title(root, table, ""), private, problems, tasks, paths, done, built)


def problem_folders(root: Path) -> list[Path]:
    """Returns the folders of the problems that a course has of its own, by name."""
    return sorted(path for path in (root / "problems").glob("p[0-9][0-9]_*") if path.is_dir())


def as_toml(course: Course, names: Iterable[str], open_tasks: Container[str]) -> dict[str, Any]:
    """Returns the table of a `course.toml` with a selection of a course's problems, all in its own folder, and those of
    these open tasks that come after them."""
    parts: dict[str, dict[str, Any]] = {}
    chosen = list(names)
    for listed in (course.by_name[name] for name in chosen):
        settings = {key: value for key, value in (("points", listed.points), ("cold", listed.cold)) if value}
        row = {"problem": str(listed.name), **settings} if settings else str(listed.name)
        optional = {"optional": True} if listed.optional else {}
        said = {"done": course.done, "built": course.built}
        words = {key: texts[listed.part] for key, texts in said.items() if listed.part in texts}
        part = parts.setdefault(listed.part, {"title": listed.part, **optional, **words, "problems": []})
        part["problems"].append(row)
    rows = list(parts.values())
    kept = [task for task in course.tasks if task.after in chosen and task.name in open_tasks]
    tasks = [{"name": task.name, "after": str(task.after)} for task in kept]
    paths = [_path_toml(path) for path in course.paths if set(path.problems) <= set(chosen)]
    more = {key: rows for key, rows in {"path": paths, "task": tasks}.items() if rows}
    return {"title": course.title, "private": course.private, "part": rows, **more}


def _path_toml(path: ListedPath) -> dict[str, Any]:
    """Returns the table of a path."""
    steps = [
        {"problem": str(name), "done": path.done[name]} if name in path.done else str(name) for name in path.problems
    ]
    texts = {key: text for key, text in (("then", path.then), ("built", path.built)) if text}
    return {"name": path.name, "title": path.title, **texts, "problems": steps}


def _table(root: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise CourseError(f"{root / FILE} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{root / FILE} is not valid TOML: {error}.") from None


def _problems(root: Path, table: Mapping[str, Any]) -> list[Listed]:
    """Returns the problems in the order of `course.toml`, then those that it does not list."""
    parts = table.get("part", [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _unsound(root, "write each part as a table `[[part]]`")
    own = problem_folders(root)
    found: list[Listed] = []
    for place, part in enumerate(parts, 1):
        where = f"part {place}"
        _known_keys(root, part, PART_KEYS, where)
        title, rows, optional = _title(root, part, where), part.get("problems"), _flag(root, part, "optional", where)
        if not isinstance(rows, list):
            raise _unsound(root, f"{where} must list its `problems`")
        found += [Listed(title, *_row(root, row, own, where), optional) for row in rows]
    listed = {each.folder for each in found}
    found += [Listed(BEYOND, path) for path in own if path not in listed and (path / "problem.py").is_file()]
    _refuse_clashes(root, found)
    return found


def _paths(root: Path, table: Mapping[str, Any], problems: Iterable[Listed]) -> Iterator[ListedPath]:
    """Yields the paths in the order of `course.toml`. Raises CourseError if one names no problem of the course, names
    one twice, or has the name of another path."""
    known, names = {str(listed.name): listed.name for listed in problems}, set[str]()
    for place, row in enumerate(_tables(root, table, "path"), 1):
        where = f"path {place}"
        _known_keys(root, row, PATH_KEYS, where)
        name, then, built = row.get("name"), row.get("then", ""), row.get("built", "")
        if not isinstance(name, str) or not _TASK_NAME.fullmatch(name) or name in names:
            raise _unsound(root, f"{where} needs a `name` of its own, of small letters, digits and `_`")
        steps = _steps(root, row.get("problems"), where)
        if unknown := next((each for each in steps if each not in known), None):
            raise _unsound(root, f"{where} lists {unknown!r}, which is no problem of the course")
        done = {each: step["done"] for each, step in steps.items() if "done" in step}
        if not all(isinstance(text, str) and text.isprintable() for text in (then, built, *done.values())):
            raise _unsound(root, f"`then`, `built` and `done` of {where} must be texts, each in one line")
        names.add(name)
        yield ListedPath(name, _title(root, row, where), then, built, tuple(known[each] for each in steps), done)


def _steps(root: Path, rows: Any, where: str) -> Mapping[str, Mapping[str, Any]]:
    """Returns the steps of a path by their problems. Raises CourseError if it has none, or one twice."""
    steps = [row if isinstance(row, dict) else {"problem": row} for row in rows] if isinstance(rows, list) else []
    for step in steps:
        _known_keys(root, step, STEP_KEYS, where)
    by_problem = {str(step.get("problem")): step for step in steps}
    if not steps or len(by_problem) < len(steps):
        raise _unsound(root, f"{where} must list its `problems`, each once")
    return by_problem


def _tables(root: Path, table: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Returns the tables `[[kind]]`. Raises CourseError if they are written in another way."""
    rows = table.get(kind, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unsound(root, f"write each {kind} as a table `[[{kind}]]`")
    return rows


def _tasks(root: Path, table: Mapping[str, Any], problems: Iterable[Listed]) -> Iterator[ListedTask]:
    """Yields the open tasks in the order of `course.toml`. Raises CourseError if one has no folder, the name of another
    one or of a problem, or comes after no problem of the course."""
    by_name, taken = {listed.name: listed for listed in problems}, set[str]()
    for place, row in enumerate(_tables(root, table, "task"), 1):
        where = f"task {place}"
        _known_keys(root, row, TASK_KEYS, where)
        name, after = (row.get(key) for key in TASK_KEYS)
        if not isinstance(name, str) or not _TASK_NAME.fullmatch(name) or not (root / "tasks" / name).is_dir():
            raise _unsound(root, f"{where} has the name {name!r}, but no folder of this name is in {root / 'tasks'}")
        if name in taken or any(name == problem.slug for problem in by_name):
            raise _unsound(root, f"{where} has the name {name!r} of another task or problem; rename its folder")
        if after not in by_name:
            close = nearest(str(after), by_name)
            hint = f'; write "{close[0]}"' if close else ""
            raise _unsound(root, f"{where} comes after {after!r}, which is no problem of this course{hint}")
        taken.add(name)
        yield ListedTask(root / "tasks" / name, by_name[after].name)


def _row(root: Path, row: Any, own: Iterable[Path], where: str) -> tuple[Path, int, bool]:
    """Returns a row of a part: the folder of the problem, its points or 0, and whether it is cold."""
    table = {"problem": row} if isinstance(row, str) else row
    if not isinstance(table, dict) or len({"problem", "include"} & table.keys()) != 1:
        raise _unsound(
            root,
            f'{where} has {row!r}, which is no problem; write "pNN_slug", or {{ include = "pNN_slug" }} for one of '
            "GPT Kata's",
        )
    _known_keys(root, table, ROW_KEYS, where)
    points = table.get("points", 0)
    if type(points) is not int or points < 0:
        raise _unsound(root, f"{where} gives {row!r} points that are not a whole number above 0")
    cold = _flag(root, table, "cold", where)
    if "problem" in table:
        return _folder(root, table["problem"], own, f"{where} lists", "this course"), points, cold
    if root == ROOT:
        raise _unsound(root, f"{where} includes {table['include']!r}, but GPT Kata can include no problem of its own")
    shipped = [listed.folder for listed in read(ROOT).problems]
    return _folder(root, table["include"], shipped, f"{where} includes", "GPT Kata"), points, cold


def _folder(root: Path, word: Any, folders: Iterable[Path], where: str, course: str) -> Path:
    """Returns the folder with that name. Raises CourseError, with a remedy, if there is none."""
    by_name = {folder.name: folder for folder in folders}
    if folder := by_name.get(str(word)):
        return folder
    meant = [name for name in by_name if str(word) in (ProblemName(name).slug, str(ProblemName(name).number))]
    close = meant or nearest(str(word), by_name)
    hint = f'; write "{close[0]}"' if close else ""
    raise _unsound(root, f"{where} {word!r}, which is not the name of a problem of {course}{hint}")


def _refuse_clashes(root: Path, problems: Iterable[Listed]) -> None:
    """Raises CourseError if a problem is listed twice, or if two have the same slug or the same number."""
    slugs: dict[str, Listed] = {}
    numbers: dict[int, Listed] = {}
    for listed in problems:
        name = listed.name
        if other := slugs.get(name.slug):
            if other.folder == listed.folder:
                raise _unsound(root, f"{name} is listed twice")
            raise _unsound(root, f"{other.name} and {name} have the same slug; rename one of them")
        if other := numbers.get(name.number):
            own = name if listed.home == root else other.name
            raise _unsound(
                root,
                f"{other.name} and {name} have the same number; give another one to the folder and the files of {own}",
            )
        slugs[name.slug] = numbers[name.number] = listed


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


def schema() -> dict[str, Any]:
    """Returns the JSON schema of `course.toml`, for editors. It knows only the form of the file; `grade verify` checks
    the rest."""
    row = _object(ROW_KEYS, problem=_NAME, include=_NAME, points={"type": "integer", "minimum": 1}, cold=_FLAG)
    row["oneOf"] = [{"required": ["problem"]}, {"required": ["include"]}]
    rows = {"type": "array", "items": {"anyOf": [_NAME, row]}}
    part = _object(PART_KEYS, title=_TITLE, optional=_FLAG, done=_TITLE, built=_TITLE, problems=rows) | {
        "required": ["title", "problems"]
    }
    kinds = {"name": {"type": "string", "pattern": f"^{_TASK_NAME.pattern}$"}, "after": _NAME}
    step = _object(STEP_KEYS, problem=_NAME, done=_TITLE) | {"required": ["problem"]}
    steps = {"type": "array", "items": {"anyOf": [_NAME, step]}, "minItems": 1}
    path = _object(PATH_KEYS, name=kinds["name"], title=_TITLE, then=_TITLE, built=_TITLE, problems=steps)
    path |= {"required": ["name", "title", "problems"]}
    task = _object(TASK_KEYS, **kinds) | {"required": list(TASK_KEYS)}
    lists = {
        name: {"type": "array", "items": items} for name, items in (("part", part), ("path", path), ("task", task))
    }
    course = _object(COURSE_KEYS, title=_TITLE, private=_FLAG, **lists)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "course.toml of GPT Kata",
        **course,
        "required": ["title"],
    }


def _object(keys: Mapping[str, str], **kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a table with these keys and no others. Raises KeyError if a key has no kind."""
    properties = {key: {"description": says, **kinds[key]} for key, says in keys.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}
