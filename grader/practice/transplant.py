"""Transplants an edit of the reference to another program, by its syntax tree.

It searches the other program for the smallest part that the edit replaces, up to the names of local variables. The part
must occur exactly once. Otherwise it searches for larger parts around it. If none occurs once, the edit does not fit.
"""

import ast
import builtins
import copy
import textwrap
from collections.abc import Iterator

from grader.course import imports


class Edit:
    """The edit that turns the reference into a faulty program: replacements of expressions or statements, smallest
    first."""

    def __init__(self, reference: str, broken: str) -> None:
        before = imports.syntax_tree(reference)
        self.known = _module_names(before)
        self.replacements = [
            (old, new)
            for old, new in _replacements(before, imports.syntax_tree(broken))
            if any(isinstance(part, (ast.Name, ast.Attribute)) for part in ast.walk(old))
        ]


class Target:
    """A program that edits are carried over to."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, imports.syntax_tree(text)
        self.known = _module_names(self.tree)
        self.nodes: dict[type, list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            self.nodes.setdefault(type(node), []).append(node)

    def with_edit(self, edit: Edit) -> str | None:
        """Returns the program with the edit; None if the edit does not fit."""
        known = self.known & edit.known
        for old, new in edit.replacements:
            alike = self.nodes.get(type(old), [])
            matches = [(node, names) for node in alike if (names := _same(old, node, {}, known)) is not None]
            if len(matches) == 1:
                place, names = matches[0]
                renamed = _renamed(new, names, known)
                return _replaced(self.text, self.tree, place, renamed) if renamed else None
        return None


def _replacements(before: ast.AST, after: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yields the pairs of an expression or statement and its replacement by an edit, the smallest first."""
    pairs = []
    old, new = before, after
    while type(old) is type(new):
        if isinstance(old, (ast.expr, ast.stmt)):
            pairs.append((old, new))
        changed = []
        for field in old._fields:
            one, two = getattr(old, field, None), getattr(new, field, None)
            if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
                changed += [(a, b) for a, b in zip(one, two, strict=True) if _dump(a) != _dump(b)]
            elif _dump(one) != _dump(two):
                changed.append((one, two))
        if len(changed) != 1 or not all(isinstance(item, ast.AST) for item in changed[0]):
            break
        old, new = changed[0]
    else:
        if isinstance(old, ast.expr) and isinstance(new, ast.expr):
            pairs.append((old, new))
    yield from (pair for pair in reversed(pairs) if not isinstance(pair[0], (ast.FunctionDef, ast.ClassDef)))


def _dump(node: object) -> str:
    if isinstance(node, list):
        return "".join(map(_dump, node))
    return ast.dump(node) if isinstance(node, ast.AST) else repr(node)


def _module_names(tree: ast.Module) -> set[str]:
    """Returns the names that a program imports or defines at its top, and what Python defines."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
    return names


def _same(pattern: object, node: object, names: dict[str, str], known: set[str]) -> dict[str, str] | None:
    """Returns the names in `node` of the local names in the pattern, if the two are the same otherwise."""
    if isinstance(pattern, ast.Name) and isinstance(node, ast.Name) and type(pattern.ctx) is type(node.ctx):
        if pattern.id in known or node.id in known:
            return names if pattern.id == node.id else None
        if names.setdefault(pattern.id, node.id) != node.id or list(names.values()).count(node.id) > 1:
            return None
        return names
    if isinstance(pattern, ast.AST):
        if type(pattern) is not type(node):
            return None
        for field in pattern._fields:
            if _same(getattr(pattern, field, None), getattr(node, field, None), names, known) is None:
                return None
        return names
    if isinstance(pattern, list):
        if not isinstance(node, list) or len(pattern) != len(node):
            return None
        for one, two in zip(pattern, node, strict=True):
            if _same(one, two, names, known) is None:
                return None
        return names
    return names if pattern == node and type(pattern) is type(node) else None


def _renamed(new: ast.AST, names: dict[str, str], known: set[str]) -> ast.AST | None:
    """Returns the replacement with the other program's names; None if it uses a local name that has none there."""
    new = copy.deepcopy(new)
    inner = {part.arg for part in ast.walk(new) if isinstance(part, ast.arg)}
    inner |= {part.id for part in ast.walk(new) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for part in ast.walk(new):
        if isinstance(part, ast.Name) and part.id not in known and part.id not in inner:
            if part.id in names:
                part.id = names[part.id]
            elif part.id not in dir(builtins):
                return None
    return new


def _replaced(text: str, tree: ast.Module, place: ast.AST, new: ast.AST) -> str | None:
    """Returns the text with another node in that place. The statement around it is written again; all else stays as it
    is."""
    statement = next(
        (
            node
            for node in reversed(list(ast.walk(tree)))
            if isinstance(node, ast.stmt)
            and not isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and place in ast.walk(node)
        ),
        None,
    )
    if statement is None:
        return None
    written = new if statement is place else _Swap(place, new).visit(_copied(statement, place))
    lines = text.splitlines()
    indent = " " * statement.col_offset
    body = textwrap.indent(ast.unparse(ast.fix_missing_locations(written)), indent).splitlines()
    lines[statement.lineno - 1 : statement.end_lineno] = body
    return "\n".join(lines) + "\n"


class _Swap(ast.NodeTransformer):
    """Puts another node in the place of one, found by identity."""

    def __init__(self, place: ast.AST, new: ast.AST) -> None:
        self.place, self.new = place, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.place else self.generic_visit(node)


def _copied(statement: ast.stmt, place: ast.AST) -> ast.stmt:
    """Returns a copy of a statement in which one node is the very same object."""
    return copy.deepcopy(statement, {id(place): place})
