"""The properties of a source that can be found without running it: its syntax tree, and the modules that it imports."""

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from commandline.problem_name import ProblemName

_LONGEST_READ = 50_000  # characters of a file whose imports are read from its syntax tree; nobody writes more by hand
_LONGEST_PARSED = 200_000  # characters; parsing a hostile file of that length takes about two seconds
_PARSED_AGAIN = 10  # times; a second time is already rare
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORT_LINE = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)


def syntax_tree(source: str | bytes) -> ast.Module:
    """Parses a source as `ast.parse` does, also in several threads. Raises what `ast.parse` raises for an invalid
    source.

    Up to 3.11.7, the threads of a Python share one count of how deep a tree is. If the garbage collector lets another
    thread in while a tree is made, the tree is right, but the count is not, and `ast.parse` raises a SystemError
    instead (https://github.com/python/cpython/issues/106905).
    """
    for _ in range(_PARSED_AGAIN):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)


def parse(text: str) -> ast.Module | None:
    """Returns the syntax tree of a source; None if it is not valid Python, or too long to parse safely."""
    if len(text) > _LONGEST_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes, for example
            return syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_modules(text: str) -> list[str]:
    """Returns the course modules that a source imports anywhere, also inside functions.

    Where the source does not parse, or is so long that parsing it takes a while, lines that look like imports count:
    its verdict must be about the syntax error, not about a missing module.
    """
    if not ProblemName.PATTERN.search(text):
        return []
    modules: list[str] = []
    if len(text) > _LONGEST_READ or (tree := parse(text)) is None:
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
    """Returns the sources of a file and of all course modules that it imports, directly or not, by module name.

    `beside` returns the text of a module in the same folder, or None.
    """
    sources, unread = {name: text}, [text]
    while unread:
        for imported in imported_modules(unread.pop()):
            if imported not in sources and (source := beside(imported)) is not None:
                sources[imported] = source
                unread.append(source)
    return sources


def constant(text: str, name: str) -> Any:
    """Returns the value that a source assigns to a name at its top level, a literal. Does not run the source. Raises
    KeyError, or what `ast.literal_eval` raises."""
    values = {
        target.id: node.value
        for node in syntax_tree(text).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return ast.literal_eval(values[name])


@dataclass(frozen=True)
class ModuleText:
    """A module of this distribution: the modules that it imports anywhere, and its code without comments, docstrings
    and layout."""

    imports: tuple[str, ...]
    code: str


@cache
def read(path: Path) -> ModuleText:
    """Reads a module of this distribution. Raises SyntaxError if it is not valid Python."""
    tree, names = syntax_tree(path.read_bytes()), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ModuleText(tuple(names), ast.dump(tree))


def files(names: Iterable[str], root: Path) -> set[Path]:
    """Returns the files below `root` that these modules are, and those of all modules that they import."""
    found, todo = set[Path](), [*names]
    while todo:
        path = _file(todo.pop(), root)
        if path and path not in found:
            found.add(path)
            todo += read(path).imports
    return found


def _file(name: str, root: Path) -> Path | None:
    """Returns the file of a module below `root`; None if it is elsewhere."""
    base = root.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
