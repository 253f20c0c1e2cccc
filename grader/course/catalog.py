"""Finds the selected course's problems by number, slug or path, and the files of each: page, stub, reference,
misconceptions."""

import importlib.util
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.course import imports, selection
from grader.course.course import FILE, FORGERIES, FRAMES, STYLES, Course
from grader.course.selection import selected
from grader.errors import CourseError
from grader.problem import Problem
from grader.task import Task

_COMMENT = 78  # columns of a comment's text
TASK = "task.py"  # the definition of an open task, in its folder


@dataclass(frozen=True)
class Misconception:
    """A misconception as an edit to the reference: `find` is replaced by `replace`.

    Attributes:
        name: The misconception in a few words.
        says: What the program with this misconception does, and what follows from it.
        find: The text in the reference.
        replace: The forms of the edit. There are several if programs with this misconception give different numbers.
        fix: How to mend it. A learner reads it on demand: who reads the cure has not thought of it.
        raises: Whether a form raises an exception or returns something other than an array. When a submission does so,
            only these misconceptions are run.
        pitfall: The beginnings of the page's pitfalls that describe it.
        not_in: The files of other styles in which the edit is possible but no fault.
        see: The slug of a problem that teaches the missing idea, if the course has it: `grade next` suggests it.
    """

    name: str
    says: str
    find: str
    replace: Sequence[str]
    fix: str = ""
    raises: bool = False
    pitfall: Sequence[str] = ()
    not_in: Sequence[str] = ()
    see: str = ""

    @property
    def advice(self) -> str:
        """What the program does, and how to mend it, for a reader who cannot ask for the rest."""
        return f"{self.says} {self.fix}".strip()

    def variants(self, source: str) -> dict[str, str]:
        """Returns the reference with the edit applied, one variant for each form, by name."""
        names = [self.name, *(f"{self.name}, form {number}" for number in range(2, len(self.replace) + 1))]
        return {name: source.replace(self.find, form, 1) for name, form in zip(names, self.replace, strict=True)}


def explained_by(problem: Problem, ideas: Sequence[str]) -> Problem | None:
    """Returns another problem that teaches the ideas behind these misconceptions of a problem; None if there is
    none."""
    if not ideas or not has_solution(problem):
        return None
    seen = next((each.see for each in misconceptions(problem) if each.see and each.name in ideas), "")
    return next((load(name) for name in names() if name.slug == seen and name != problem.name), None)


def part_of(problem: Problem) -> str:
    """Returns the title of the part of the course that the problem belongs to, as learners read it."""
    listed = selected().by_name[problem.name]
    return f"{listed.part} (optional)" if listed.optional else listed.part


def done(problem: Problem) -> str:
    """Returns what learners have when they have passed the part of a problem; empty if the course does not say it."""
    found = selected()
    title = found.by_name[problem.name].part
    text = found.done.get(title, "")
    return f"You have passed all of “{title}”. {text}" if text else ""


def built(passed: Iterable[str]) -> list[str]:
    """Returns what learners have built who have passed these problems: a phrase for each whole part that has one, and
    for each whole path with a problem of a part that is not whole."""
    found, done = selected(), set(passed)
    left = {found.by_name[name].part for name in names() if name not in done}
    parts = [text for part, text in found.built.items() if part not in left]
    ways = [
        path.built
        for path in found.paths
        if path.built
        and done.issuperset(path.problems)
        and any(found.by_name[name].part in left for name in path.problems)
    ]
    return [*ways, *parts]


def is_optional(problem: Problem) -> bool:
    """Returns whether learners may leave out the part of the course that the problem belongs to."""
    return selected().by_name[problem.name].optional


def is_cold(problem: Problem) -> bool:
    """Returns whether the page of a problem shows less until it has passed."""
    return selected().by_name[problem.name].cold


def names() -> list[ProblemName]:
    """Returns the names of all problems, in order."""
    return [listed.name for listed in selected().problems]


def load(name: str) -> Problem:
    """Returns the problem with that exact name. Raises CourseError if there is none, or if its definition is broken."""
    return _loaded(selected(), name)


def forget() -> None:
    """Reads the course and its problems again when they are next asked for."""
    selection.forget()
    _loaded.cache_clear()


@cache
def _loaded(course: Course, name: str) -> Problem:
    listed = course.by_name.get(name)
    if listed is None:
        raise CourseError(f"The course in {course.root} has no problem {name}.")
    problem = defined(listed.folder)
    for check in problem.checks:
        if check.cases not in problem.cases:
            raise CourseError(
                f"{listed.folder / 'problem.py'}: the check {check.name!r} uses cases that are not defined: "
                f"{check.cases!r}."
            )
    beside = course.numbers[listed.home]
    problem = replace(problem, builds_on=tuple(number for number in problem.builds_on if number in beside))
    factor, rest = divmod(listed.points or problem.points, problem.points or 1)
    if rest or not factor:
        raise CourseError(
            f"{course.root / FILE}: the points of {name} must be a multiple of {problem.points}, the points of its "
            "checks."
        )
    return replace(problem, checks=tuple(replace(check, points=check.points * factor) for check in problem.checks))


def defined(folder: Path) -> Problem:
    """Returns the problem that `problem.py` in a folder defines, or the open task that `task.py` does. Raises
    CourseError if it is broken."""
    if (folder / TASK).is_file():
        return defined_task(folder)
    problem = getattr(_module(folder / "problem.py"), "PROBLEM", None)
    if not isinstance(problem, Problem):
        raise CourseError(f"{folder / 'problem.py'} must define PROBLEM = Problem(...).")
    if mistake := next(_mistakes(problem), None):
        raise CourseError(f"{folder / 'problem.py'}: {mistake}.")
    return replace(problem, folder=folder)


def defined_task(folder: Path) -> Task:
    """Returns the open task that `task.py` in a folder defines. Raises CourseError if it is broken."""
    task = getattr(_module(folder / TASK), "TASK", None)
    if not isinstance(task, Task):
        raise CourseError(f"{folder / TASK} must define TASK = Task(...).")
    bars = [standard.most for standard in task.standards]
    if not bars or bars != sorted(set(bars), reverse=True):
        raise CourseError(f"{folder / TASK}: each class must need a lower score than the one before it.")
    return replace(task, folder=folder)


def _mistakes(problem: Problem) -> Iterator[str]:
    """Yields a complaint on each name that the definition uses but does not define: entries, arguments, cases,
    checks."""
    entries = {entry.name: entry for entry in problem.entries}
    if problem.bill and problem.bill not in {check.name for check in problem.checks}:
        yield f"`bill` names the check {problem.bill!r}, which does not exist"
    for check in problem.checks:
        options, entry = check.options, entries.get(check.options.get("entry", ""))
        wrt = options.get("wrt")
        arguments = [*(wrt if isinstance(wrt, list) else ()), *([options["argument"]] if "argument" in options else ())]
        for kind, names, known in (
            ("cases", [check.cases], list(problem.cases)),
            ("check", [check.agrees_with] if check.agrees_with else [], [other.name for other in problem.checks]),
            ("entry", [options["entry"]] if "entry" in options else [], list(entries)),
            ("argument", arguments if entry else [], list(entry.arguments) if entry else []),
        ):
            for name in names:
                if name not in known:
                    yield (
                        f"the check {check.name!r} names the {kind} {name!r}; there is only "
                        f"{', '.join(map(repr, known))}"
                    )


def probes_module(folder: Path) -> object | None:
    """Returns the `probes.py` in a problem's folder, imported; None if there is none. Only workers call this: it
    imports JAX."""
    path = folder / "probes.py"
    return _module(path) if path.is_file() else None


def play_module(folder: Path) -> object:
    """Returns the `play.py` in a problem's folder, imported. Only workers call this: it imports JAX."""
    return _module(folder / "play.py")


def module_of_task(folder: Path, name: str) -> object:
    """Returns a module in the folder of an open task, imported. Only workers call this: it imports JAX."""
    return _module(folder / f"{name}.py")


def _module(path: Path) -> object:
    name = f"{path.parent.parent.name}.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CourseError(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CourseError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def builds_on(problem: Problem) -> list[Problem]:
    """Returns the problems that a problem builds on, as far as this copy of the course has them."""
    return [other for other in problems() if other.number in problem.builds_on]


def needed_for(problem: Problem) -> list[Problem]:
    """Returns the problems that build on a problem."""
    return [other for other in problems() if problem.number in other.builds_on]


def problems() -> list[Problem]:
    """Returns the problems whose definitions can be read, in order. Raises CourseError if there are none: see
    `unreadable`."""
    broken = unreadable()
    found = [load(name) for name in names() if name not in broken]
    return found or all_problems()


def all_problems() -> list[Problem]:
    """Returns all problems, in order. Raises CourseError if the definition of one cannot be read."""
    return [load(name) for name in names()]


def unreadable() -> dict[ProblemName, str]:
    """Returns, for each problem whose definition cannot be read, the reason."""
    found: dict[ProblemName, str] = {}
    for name in names():
        try:
            load(name)
        except CourseError as error:
            found[name] = str(error)
    return found


def find(word: str) -> Problem:
    """Returns the problem with that number (`7`, `07`, `p07`), slug, name or path of a learner's file.

    Raises UsageError, which suggests the nearest names or the range of the numbers, if there is none.
    """
    known = names()
    text = Path(word).name.removesuffix(".py") if word.endswith(".py") or "/" in word.rstrip("/") else word.strip("/")
    digits = re.fullmatch(r"p?(\d+)", text)
    number = int(digits[1]) if digits else None
    for name in known:
        if text in (name, name.slug) or number == name.number:
            return load(name)
    if prefixed := re.match(r"p?(\d{1,2})_", text):  # the beginning of a name
        for name in known:
            if name.number == int(prefixed[1]) and name.slug.startswith(text[prefixed.end() :]):
                return load(name)
    hint = _range_of(known) if number is not None and known else _nearest_to(text, known)
    raise UsageError(f"There is no problem {word!r}.{hint} `grade list` shows all of them.")


def _range_of(known: Sequence[ProblemName]) -> str:
    labels = sorted((name.label for name in known), key=int)
    return f" The numbers run from {labels[0]} to {labels[-1]}."


def _nearest_to(text: str, known: Sequence[ProblemName]) -> str:
    """Returns a question with the names that `text` may have meant; empty if none is near."""
    by_slug = {name.slug: name for name in known}
    close = [f"{by_slug[slug].label} {slug}" for slug in nearest(text.lstrip("p0123456789_"), by_slug, 3)]
    close = close or [f"{name.label} {name.slug}" for name in known if text and text.lower() in name]
    return f" Did you mean {' or '.join(close)}?" if close else ""


def select(words: str) -> list[Problem]:
    """Returns the problems in a list such as `01-08,12`, in order. Raises UsageError."""
    chosen: set[ProblemName] = set()
    for word in words.split(","):
        first, dash, last = word.strip().partition("-")
        if dash and not last:
            raise UsageError(
                f"The range {word.strip()!r} has no end; write {first}-{names()[-1].label} for all from there."
            )
        low, high = find(first), find(last if dash else first)
        if high.number < low.number:
            raise UsageError(f"The range {word.strip()!r} is backwards; write {last.strip()}-{first.strip()} instead.")
        chosen |= {name for name in names() if low.number <= name.number <= high.number}
    return [load(name) for name in names() if name in chosen]


def page_text(problem: Problem) -> str:
    """Returns the text of the problem's page. Raises CourseError if it is missing."""
    return text_of(problem.folder / "page.md")


def stub_text(problem: Problem) -> str:
    """Returns the text of the problem's stub. Raises CourseError if it is missing."""
    return text_of(problem.folder / "stub.py")


def solution_text(problem: Problem) -> str:
    """Returns the text of the reference. Raises CourseError if it is missing, as in a learner's bundle."""
    return text_of(solution_path(problem))


def solution_for_learners(problem: Problem) -> str:
    """Returns the text of the reference. Raises UsageError if the course is private, or if this copy of it has none."""
    if selected().private:
        raise UsageError(
            f"The course {selected().title!r} is private: it shows its solutions to nobody. Ask your teacher."
        )
    if not has_solution(problem):
        raise UsageError(
            f"This bundle was handed out to a class without the solution of problem {problem.label}. "
            f"`grade hint {problem.label}` helps; ask your teacher for more."
        )
    return solution_text(problem)


def explained_solution(problem: Problem) -> str:
    """Returns `solution_for_learners`, which may raise UsageError, below a comment that says why it is written so."""
    text = solution_for_learners(problem)
    lines = textwrap.wrap(why(problem), _COMMENT, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines) + text


def shows_solution(problem: Problem) -> bool:
    """Returns whether learners can read the reference: a class's bundle has none, and a private course shows none."""
    return has_solution(problem) and not selected().private


def text_of(path: Path) -> str:
    """Returns the text of a file of a problem. Raises CourseError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CourseError(f"{path} is not UTF-8 text.") from None


def solution_path(problem: Problem) -> Path:
    """Returns the path of the reference. Raises CourseError if it is missing, as in a learner's bundle."""
    path = _solution_file(problem)
    if not path.is_file():
        raise CourseError(f"Problem {problem.label} cannot be graded here: its reference {path} is missing.")
    return path


def _solution_file(problem: Problem) -> Path:
    return problem.home / "solutions" / f"{problem.name}.py"


def styles(problem: Problem) -> list[Path]:
    """Returns the files of correct programs in other styles than the reference, also of those that are frames."""
    return sorted([*_beside(problem, STYLES), *frames(problem)], key=lambda path: path.name)


def frames(problem: Problem) -> list[Path]:
    """Returns the files of those of them that learners meet in reviews, without their core."""
    return _beside(problem, FRAMES)


def forgeries(problem: Problem) -> list[Path]:
    """Returns the files of programs that claim work which they do not do."""
    return _beside(problem, FORGERIES)


def _beside(problem: Problem, folder: str) -> list[Path]:
    return sorted((problem.home / folder).glob(f"p{problem.label}_*.py"))


def references(problem: Problem) -> Callable[[str], str | None]:
    """Returns a function that reads references: of the selected course, or from the folder of this problem's. For
    `with_imports`."""

    def beside(name: str) -> str | None:
        if name in selected().by_name:
            other = load(name)
            return solution_text(other) if has_solution(other) else None
        path = problem.home / "solutions" / f"{name}.py"
        return text_of(path) if path.is_file() else None

    return beside


def has_solution(problem: Problem) -> bool:
    """Returns whether the reference is there: a learner's bundle has none."""
    return _solution_file(problem).is_file()


def reference_sources(problem: Problem) -> Mapping[str, str]:
    """Returns the sources of the reference and of the modules that it imports, by module name."""
    return imports.with_imports(problem.name, solution_text(problem), references(problem))


def why(problem: Problem) -> str:
    """Returns why the reference is written so and what another good way is, as one paragraph of Markdown. Empty if its
    author has not said it. Raises CourseError if the file is broken."""
    return " ".join(_toml(problem).get("why", "").split())


def cores(problem: Problem) -> dict[Path, list[str]]:
    """Returns the lines that a short review asks for, in blocks, by the file of the correct program that has them: of
    the reference first, then of each frame. Raises CourseError if the file that marks them is broken."""
    tables, path = _toml(problem), solution_path(problem)
    for row in tables.get("frame", []):
        if set(row) != {"file", "core"} or not _is_core(row["core"]):
            raise CourseError(
                f"{path.with_suffix('.toml')}: each [[frame]] must have a `file` of {FRAMES}, and as `core` a list of "
                "texts."
            )
    frames = {problem.home / FRAMES / str(row["file"]): row["core"] for row in tables.get("frame", [])}
    return {path: tables.get("core", []), **frames}


def misconceptions_file(problem: Problem) -> dict[str, list[dict[str, Any]]]:
    """Returns the tables of the file with the problem's misconceptions, promises, claims and frames. Raises CourseError
    if it is broken."""
    return {name: rows for name, rows in _toml(problem).items() if name not in ("why", "core")}


def _toml(problem: Problem) -> dict[str, Any]:
    path = solution_path(problem).with_suffix(".toml")
    try:
        tables = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path} cannot be read: {error}") from error
    for name, rows in tables.items():
        if name == "why":
            if not isinstance(rows, str):
                raise CourseError(f"{path}: `why` must be a text.")
        elif name not in ("core", "frame", "misconception", "promise", "claim") or not isinstance(rows, list):
            raise CourseError(
                f"{path} can have only why, core, [[frame]], [[misconception]], [[promise]] and [[claim]]; it has "
                f"{name!r}."
            )
        if name == "core" and not _is_core(rows):
            raise CourseError(f"{path}: `core` must be a list of texts.")
    return tables


def _is_core(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(block, str) and block.strip() for block in value)


def misconceptions(problem: Problem) -> list[Misconception]:
    """Returns the problem's misconceptions, in order. Raises CourseError if their file or one of their edits is
    broken."""
    source = solution_text(problem)
    path = solution_path(problem).with_suffix(".toml")
    rows = misconceptions_file(problem).get("misconception", [])
    keys = [item.name for item in fields(Misconception) if item.default is MISSING]
    for number, row in enumerate(rows, 1):
        if set(row) - {"fix", "raises", "pitfall", "not_in", "see"} != set(keys):
            raise CourseError(
                f"{path}: misconception {number} must have {', '.join(keys)}, and can have fix, raises, pitfall, "
                f"not_in and see; it has {', '.join(row)}."
            )
        if not isinstance(row.get("raises", False), bool):
            raise CourseError(f"{path}: `raises` of misconception {number} must be true or false.")
    misconceptions = [
        Misconception(**{**row, **{name: _strings(row.get(name, ())) for name in ("replace", "pitfall", "not_in")}})
        for row in rows
    ]
    for misconception in misconceptions:
        if (count := source.count(misconception.find)) != 1:
            raise CourseError(
                f"{path}: `find` of {misconception.name!r} must occur exactly once in the reference; it occurs {count} "
                "times."
            )
    return misconceptions


def _strings(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
