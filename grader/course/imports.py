"""What the source of a file is without running it: its syntax tree, and the course modules that it imports."""

import ast
import re
import warnings
from collections.abc import Callable, Mapping

from commandline.problem_name import ProblemName

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
