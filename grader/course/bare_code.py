"""A program without what does not run: comments, docstrings, imports."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable

from grader.course import imports


def without_comments(source: str) -> str:
    """Returns the program without comments and docstrings. It does the same. Raises SyntaxError."""
    lines = source.splitlines()
    drops = _numbers(_docstrings(imports.syntax_tree(source)))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            if before := lines[row - 1][:column].rstrip():
                lines[row - 1] = before
            else:
                drops.add(row)
    return _kept(lines, drops)


def without_imports(source: str) -> str:
    """Returns the program without the imports at its top level. Raises SyntaxError."""
    tree = imports.syntax_tree(source)
    return _kept(
        source.splitlines(), _numbers(node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
    )


def _numbers(statements: Iterable[ast.stmt]) -> set[int]:
    """Returns the numbers of the lines of these statements."""
    return {number for each in statements for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)}


def _kept(lines: list[str], drops: set[int]) -> str:
    """Returns the lines whose numbers are not in `drops`, without the empty lines that they leave behind."""
    kept = "\n".join(line.rstrip() for number, line in enumerate(lines, 1) if number not in drops)
    return re.sub(r"(:\n)\n+", r"\1", re.sub(r"\n{4,}", "\n\n\n", kept)).strip() + "\n"


def _docstrings(tree: ast.Module) -> Iterable[ast.stmt]:
    """Yields each docstring of a body that has more than that."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and len(node.body) > 1:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first
