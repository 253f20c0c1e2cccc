"""Finds problems by number, slug or path, and the files of each problem: page, stub, reference, misconceptions."""

import ast
import importlib.util
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.errors import CourseError
from grader.paths import PROBLEMS, SOLUTIONS
from grader.problem import Problem

# The parts of the course: first number, last number, title.
PARTS = (
    (1, 7, "I. A GPT, piece by piece"),
    (8, 14, "II. Training it"),
    (15, 16, "III. Feeding it"),
    (17, 24, "IV. Scaling it"),
    (25, 28, "V. Keeping it"),
    (29, 31, "VI. Using it"),
    (32, 32, "VII. Capstone"),
)


@dataclass(frozen=True)
class Misconception:
    """A common wrong idea, as an edit to the reference: `find` is replaced by `replace`. `says` tells the learner what to do.

    If programs that share the idea give different numbers, `replace` has a form for each.
    """

    name: str
    says: str
    find: str
    replace: Sequence[str]

    def variants(self, source: str) -> dict[str, str]:
        """The reference with the edit applied, one variant for each form, by name."""
        names = [self.name, *(f"{self.name}, form {number}" for number in range(2, len(self.replace) + 1))]
        return {name: source.replace(self.find, form, 1) for name, form in zip(names, self.replace, strict=True)}


def part_of(problem: Problem) -> str:
    """The title of the part of the course that the problem belongs to."""
    return next((title for first, last, title in PARTS if first <= problem.number <= last), "Beyond the course")


def names() -> list[ProblemName]:
    """The names of all problems, in order."""
    return sorted(ProblemName(path.parent.name) for path in PROBLEMS.glob("p[0-9][0-9]_*/problem.py"))


@cache
def load(name: str) -> Problem:
    """The problem with that exact name. Raises CourseError if its definition is broken."""
    folder = PROBLEMS / name
    problem = getattr(_module(folder / "problem.py"), "PROBLEM", None)
    if not isinstance(problem, Problem):
        raise CourseError(f"{folder / 'problem.py'} must define PROBLEM = Problem(...).")
    return replace(problem, folder=folder)


def probes_module(name: str) -> object | None:
    """The problem's own `probes.py`, imported; None if it has none. Only workers call this: it imports JAX."""
    path = PROBLEMS / name / "probes.py"
    return _module(path) if path.is_file() else None


def _module(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"problems.{path.parent.name}.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CourseError(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CourseError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def builds_on(problem: Problem) -> list[Problem]:
    """The problems that a problem builds on, as far as this copy of the course has them."""
    return [other for other in problems() if other.number in problem.builds_on]


def needed_for(problem: Problem) -> list[Problem]:
    """The problems that build on a problem."""
    return [other for other in problems() if problem.number in other.builds_on]


def problems() -> list[Problem]:
    """All problems, in order."""
    return [load(name) for name in names()]


def find(word: str) -> Problem:
    """The problem with that number (`7`, `07`, `p07`), slug, name or path of a learner's file.

    Raises UsageError, which suggests the nearest names, if there is none.
    """
    known = names()
    text = Path(word).name.removesuffix(".py") if word.endswith(".py") or "/" in word.rstrip("/") else word.strip("/")
    digits = re.fullmatch(r"p?(\d+)", text)
    number = int(digits[1]) if digits else None
    for name in known:
        if text in (name, name.slug) or number == name.number:
            return load(name)
    if number is not None:
        distance = {name.label: abs(name.number - number) for name in known}
        close = sorted(distance, key=lambda label: distance[label])[:3]
    else:
        by_slug = {name.slug: name for name in known}
        close = [f"{by_slug[slug].label} {slug}" for slug in nearest(text.lstrip("p0123456789_"), by_slug, 3)]
        close = close or [f"{name.label} {name.slug}" for name in known if text and text.lower() in name]
    did_you_mean = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UsageError(f"There is no problem {word!r}.{did_you_mean} `grade list` shows all of them.")


def select(words: str) -> list[Problem]:
    """The problems in a list such as `01-08,12`, in order. Raises UsageError."""
    chosen: set[ProblemName] = set()
    for word in words.split(","):
        first, dash, last = word.strip().partition("-")
        low, high = find(first), find(last if dash else first)
        if high.number < low.number:
            raise UsageError(f"The range {word.strip()!r} is backwards; write {last.strip()}-{first.strip()} instead.")
        chosen |= {name for name in names() if low.number <= name.number <= high.number}
    return [load(name) for name in sorted(chosen)]


def page_text(problem: Problem) -> str:
    """The text of the problem's page. Raises CourseError if it is missing."""
    return _text(problem.folder / "page.md")


def stub_text(problem: Problem) -> str:
    """The text of the problem's stub. Raises CourseError if it is missing."""
    return _text(problem.folder / "stub.py")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from None


def solution_path(problem: Problem) -> Path:
    """The path of the reference. Raises CourseError if it is missing, as in a learner's bundle."""
    path = SOLUTIONS / f"{problem.name}.py"
    if not path.is_file():
        raise CourseError(f"Problem {problem.label} cannot be graded here: its reference {path} is missing.")
    return path


def has_solution(problem: Problem) -> bool:
    """Whether this copy of the course has the reference; a class's bundle does not."""
    return (SOLUTIONS / f"{problem.name}.py").is_file()


def solution_text(problem: Problem) -> str:
    """The text of the reference, to read. Raises UsageError if this copy of the course has none."""
    if not has_solution(problem):
        raise UsageError(
            f"This bundle was handed out to a class without the solution of problem {problem.label}. "
            f"`grade hint {problem.label}` helps; ask your teacher for more."
        )
    return solution_path(problem).read_text(encoding="utf-8")


_LONGEST_PARSED = 200_000  # characters; parsing a hostile file of that length takes about two seconds
_IMPORT_LINE = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a source; None if it is not valid Python, or too long to parse safely."""
    if len(text) > _LONGEST_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes, for example
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_modules(text: str) -> list[str]:
    """The course modules that a source imports anywhere, also inside functions.

    Where the source does not parse, lines that look like imports count: its verdict must be about the syntax error, not about
    a missing module.
    """
    if not ProblemName.PATTERN.search(text):
        return []
    modules: list[str] = []
    if (tree := parse(text)) is None:
        for match in _IMPORT_LINE.finditer(text):
            modules += [match[1]] if match[1] else [part.split()[0] for part in match[2].split(",") if part.strip()]
    else:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.append(node.module)
            elif isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names]
    return [name for name in dict.fromkeys(modules) if ProblemName.parse(name)]


def with_imports(name: str, text: str, beside: Callable[[str], str | None]) -> Mapping[str, str]:
    """The sources of a file and of all course modules that it imports, directly or not, by module name.

    `beside` returns the text of a module in the same folder, or None.
    """
    sources, unread = {name: text}, [text]
    while unread:
        for imported in imported_modules(unread.pop()):
            if imported not in sources and (source := beside(imported)) is not None:
                sources[imported] = source
                unread.append(source)
    return sources


def in_folder(folder: Path) -> Callable[[str], str | None]:
    """A function that reads the modules of a folder of the course's own, for `with_imports`."""

    def beside(name: str) -> str | None:
        path = folder / f"{name}.py"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return beside


def reference_sources(problem: Problem) -> Mapping[str, str]:
    """The sources of the reference and of the modules that it imports, by module name."""
    path = solution_path(problem)
    return with_imports(problem.name, path.read_text(encoding="utf-8"), in_folder(path.parent))


def misconceptions(problem: Problem) -> list[Misconception]:
    """The problem's misconceptions, in order. Raises CourseError if their file or one of their edits is broken."""
    path = SOLUTIONS / f"{problem.name}.toml"
    source = solution_path(problem).read_text(encoding="utf-8")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = table.get("misconception", [])
        misconceptions = [Misconception(**{**row, "replace": _forms(row["replace"])}) for row in rows]
    except (OSError, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise CourseError(f"{path} cannot be read: {error}") from error
    for misconception in misconceptions:
        if (count := source.count(misconception.find)) != 1:
            raise CourseError(
                f"{path}: `find` of {misconception.name!r} must occur exactly once in the reference; it occurs {count} times."
            )
    return misconceptions


def _forms(replace: str | list[str]) -> tuple[str, ...]:
    return (replace,) if isinstance(replace, str) else tuple(replace)
