"""Finds problems by number, slug or path, and what belongs to each: page, stub, reference, misconceptions."""

import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from commandline.errors import UsageError
from commandline.spelling import nearest
from grader.errors import CourseError
from grader.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "problems"
SOLUTIONS = ROOT / "solutions"

NAME = re.compile(r"p(\d\d)_([a-z0-9_]+)")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(p\d\d_[a-z0-9_]+)", re.MULTILINE)

# Each part by the first and the last number it holds.
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
    """A known wrong idea: an edit to the reference, and a sentence that teaches.

    One idea may be written in several ways that give different numbers: then `replace` has a form for each.
    """

    name: str
    says: str
    find: str
    replace: Sequence[str]

    def variants(self, source: str) -> dict[str, str]:
        """The reference with this idea in it, by a name for each form."""
        names = [self.name, *(f"{self.name}, form {number}" for number in range(2, len(self.replace) + 1))]
        return {name: source.replace(self.find, form, 1) for name, form in zip(names, self.replace, strict=True)}


def part_of(problem: Problem) -> str:
    """The title of the part of the course that a problem belongs to."""
    return next((title for first, last, title in PARTS if first <= problem.number <= last), "Beyond the course")


def names() -> list[str]:
    """The names of all problems (`p07_next_token_loss`), in order."""
    return sorted(path.parent.name for path in PROBLEMS.glob("p[0-9][0-9]_*/problem.py"))


@cache
def load(name: str) -> Problem:
    """The problem of that exact name. Raises CourseError if its definition is broken."""
    folder = PROBLEMS / name
    problem = getattr(_module(folder / "problem.py"), "PROBLEM", None)
    if not isinstance(problem, Problem):
        raise CourseError(f"{folder / 'problem.py'} must define PROBLEM = Problem(...)")
    return replace(problem, folder=folder)


def probes_module(name: str) -> object | None:
    """The problem's own `probes.py`, imported; None if it has none. For workers: it imports JAX."""
    path = PROBLEMS / name / "probes.py"
    return _module(path) if path.is_file() else None


def _module(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"problems.{path.parent.name}.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CourseError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CourseError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def builds_on(problem: Problem) -> list[Problem]:
    """The problems whose entries or ideas it uses."""
    return [find(str(number)) for number in problem.builds_on]


def needed_for(problem: Problem) -> list[Problem]:
    """The problems that build on it."""
    return [other for other in problems() if problem.number in other.builds_on]


def problems() -> list[Problem]:
    """All problems, in order."""
    return [load(name) for name in names()]


def find(word: str) -> Problem:
    """The problem meant by `7`, `07`, `p07`, a slug, a name or a path of its file.

    Raises UsageError, with the nearest names, if there is none.
    """
    known = names()
    text = Path(word).name.removesuffix(".py") if word.endswith(".py") or "/" in word.rstrip("/") else word.strip("/")
    number = re.fullmatch(r"p?(\d+)", text)
    for name in known:
        if text in (name, name[4:]) or (number and int(number[1]) == int(name[1:3])):
            return load(name)
    if number:
        close = [name[1:3] for name in sorted(known, key=lambda name: abs(int(name[1:3]) - int(number[1])))[:3]]
    else:
        slugs = {name[4:]: name for name in known}
        close = [f"{slugs[slug][1:3]} {slug}" for slug in nearest(text.lstrip("p0123456789_"), slugs, 3)]
        close = close or [f"{name[1:3]} {name[4:]}" for name in known if text and text.lower() in name]
    did_you_mean = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UsageError(f"There is no problem {word!r}.{did_you_mean} `grade list` shows all of them.")


def select(words: str) -> list[Problem]:
    """The problems meant by a list such as `01-08,12`, in order. Raises UsageError."""
    chosen: set[str] = set()
    for word in words.split(","):
        first, dash, last = word.strip().partition("-")
        low, high = find(first), find(last if dash else first)
        if high.number < low.number:
            raise UsageError(f"{word.strip()!r} ends before it begins; write {last.strip()}-{first.strip()}.")
        chosen |= {name for name in names() if low.number <= int(name[1:3]) <= high.number}
    return [load(name) for name in sorted(chosen)]


def page_text(problem: Problem) -> str:
    """The lesson. Raises CourseError if it is not there."""
    return _text(problem.folder / "page.md")


def stub_text(problem: Problem) -> str:
    """The file to fill in. Raises CourseError if it is not there."""
    return _text(problem.folder / "stub.py")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}") from None


def solution_path(problem: Problem) -> Path:
    """Where the reference stands. Raises CourseError if it is not there (a learner's bundle, say)."""
    path = SOLUTIONS / f"{problem.name}.py"
    if not path.is_file():
        raise CourseError(f"The reference of problem {problem.label} is not here ({path}), so it cannot be graded.")
    return path


def with_imports(name: str, text: str, beside: Callable[[str], str | None]) -> Mapping[str, str]:
    """The sources of a file and of all course modules that it imports, directly or not, by module name. `beside` gives the
    text of a module that lies beside it."""
    sources, waiting = {name: text}, [text]
    while waiting:
        for imported in _IMPORT.findall(waiting.pop()):
            if imported not in sources and (found := beside(imported)) is not None:
                sources[imported] = found
                waiting.append(found)
    return sources


def in_folder(folder: Path) -> Callable[[str], str | None]:
    """The texts of the modules in a folder, for `with_imports`."""

    def beside(name: str) -> str | None:
        path = folder / f"{name}.py"
        if not path.is_file() or path.stat().st_size >= 1 << 20:
            return None
        return path.read_text(encoding="utf-8", errors="replace")

    return beside


def reference_sources(problem: Problem) -> Mapping[str, str]:
    """The reference and what it imports, by module name."""
    path = solution_path(problem)
    return with_imports(problem.name, path.read_text(encoding="utf-8"), in_folder(path.parent))


def misconceptions(problem: Problem) -> list[Misconception]:
    """The problem's known wrong ideas. Raises CourseError if the file or an edit of it is broken."""
    path = SOLUTIONS / f"{problem.name}.toml"
    source = solution_path(problem).read_text(encoding="utf-8")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = table.get("misconception", [])
        ideas = [Misconception(**{**row, "replace": _forms(row["replace"])}) for row in rows]
    except (OSError, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise CourseError(f"{path} cannot be read: {error}") from error
    for idea in ideas:
        if source.count(idea.find) != 1:
            raise CourseError(f"{path}: `find` of {idea.name!r} must occur once in the solution")
    return ideas


def _forms(replace: str | list[str]) -> tuple[str, ...]:
    return (replace,) if isinstance(replace, str) else tuple(replace)
