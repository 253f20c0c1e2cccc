"""Other names for the local variables of a program, and no comments: so that a comparison with one's own file shows no
fault."""

import ast
import builtins
import hashlib
import io
import keyword
import re
import tokenize
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from grader.course import imports
from grader.course.bare_code import without_comments

Item = TypeVar("Item")

_SHAPED = re.compile(r"(.+?)(_[A-Z0-9][A-Za-z0-9]{0,5})?")  # a name, and the shape at its end


@cache
def _table() -> dict[str, Any]:
    """Returns the new names: `others` for any variable, `stems` for certain ones."""
    return tomllib.loads(files(__package__).joinpath("names.toml").read_text(encoding="utf-8"))


def by_seed(items: Iterable[Item], seed: str) -> list[Item]:
    """Returns the items in an order that depends on nothing but the seed and their texts."""
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed}\0{item}".encode()).digest())


def new_names(sources: Sequence[str], seed: str) -> dict[str, str]:
    """Returns a new name for each local name of these programs that nothing outside of its function can know.

    Not renamed: names of modules, entries and their parameters, names of keyword arguments, axis letters.
    """
    trees = [imports.syntax_tree(source) for source in sources]
    taken = {name for tree in trees for name in _all_names(tree)} | set(keyword.kwlist) | set(dir(builtins))
    fixed = {name for tree in trees for name in _fixed(tree)}
    found = {name for tree in trees for name in _local(tree)} - fixed - set(dir(builtins))
    others, names = iter(by_seed(_table()["others"], seed)), {}
    for name in sorted(found):
        if (len(name) < 2 and name.isupper()) or not name.strip("_"):
            continue
        match = _SHAPED.fullmatch(name)
        stem, shape = (match[1], match[2] or "") if match else (name, "")
        for candidate in [*by_seed(_table()["stems"].get(stem, []), seed + name), *others]:
            if (new := candidate + shape) not in taken:
                names[name] = new
                taken.add(new)
                break
    return names


def disguised(source: str, names: Mapping[str, str]) -> str:
    """Returns the program with these names, without comments and docstrings. It does the same."""
    bare = without_comments(source)
    lines = bare.splitlines()
    edits: list[tuple[int, int, int, str]] = []
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(bare).readline):
        if token.type == tokenize.NAME and before != "." and token.string in names:
            edits.append((*token.start, token.end[1], names[token.string]))
        before = token.string
    for row, start, end, text in sorted(edits, reverse=True):
        lines[row - 1] = lines[row - 1][:start] + text + lines[row - 1][end:]
    return "\n".join(lines) + "\n"


def _all_names(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def _fixed(tree: ast.Module) -> set[str]:
    """Returns the names that must stay: those of the module and of classes, parameters of their functions, keywords, in
    f-strings."""
    fixed: set[str] = set()
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                fixed |= {statement.name, *_parameters(statement.args)}
            else:
                fixed |= set(_bound(statement))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            fixed.add(node.arg)
        elif isinstance(node, ast.JoinedStr):
            fixed |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            fixed |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            fixed |= set(node.names)
    return fixed


def _bound(node: ast.AST) -> Iterable[str]:
    """Yields the names that a statement of a module or class binds."""
    if isinstance(node, ast.ClassDef):
        yield node.name
        return
    yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument]


def _local(tree: ast.Module) -> set[str]:
    """Returns the names that functions bind: variables, inner functions and their parameters."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            names |= set(_parameters(node.args))
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
    return names
