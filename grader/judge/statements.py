"""Selects the statements of a notebook's cells that count: those that a file with the same definitions would hold."""

import ast
import builtins
import re
import symtable
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.course import imports

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BUILTINS = frozenset([*dir(builtins), "__name__"])


@dataclass(frozen=True)
class _Statement:
    """A statement at the top level of a cell, with the names that it binds and the global names that it uses."""

    cell: int
    node: ast.stmt
    bound: frozenset[str]
    used: frozenset[str]


def counting(
    cells: Mapping[int, str], whole: Collection[int], entries: Collection[str], helping: Collection[int] = ()
) -> dict[int, str]:
    """Returns the text of each cell without the statements that do not count, by number. The cells have no magics.

    Imports, definitions and constants count, and whatever assigns a name that the entries use, directly or not. The
    cells in `whole` count whole, and the entries that they define count nowhere else. Of the cells in `helping`, only
    what the entries use counts. A cell that is not valid Python counts whole if it seems to define an entry.
    """
    trees = {number: imports.parse(text) for number, text in cells.items()}
    preferred = {name for number in whole for name in entries if defines(cells[number], [name])}
    listed = [one for one in _listed(trees) if one.cell in whole or not one.bound & preferred]
    kept = _kept(listed, whole, entries, helping)
    counted = {}
    for number, text in cells.items():
        if number in whole:
            counted[number] = text
        elif (tree := trees[number]) is None:
            counted[number] = text if not preferred and defines(text, entries) else ""
        else:
            counted[number] = _without(text, tree, [node for node in tree.body if id(node) not in kept])
    return counted


def _listed(trees: Mapping[int, ast.Module | None]) -> list[_Statement]:
    """Lists the statements of all cells that are valid Python, in order. `trees` has None for other cells."""
    return [
        _Statement(number, node, _bound(node), _used(node))
        for number, tree in trees.items()
        for node in (tree.body if tree else ())
    ]


def _kept(
    listed: Sequence[_Statement], whole: Collection[int], entries: Collection[str], helping: Collection[int]
) -> set[int]:
    """Chooses the statements that count, by the `id` of their nodes. `whole` and `helping` are as for `counting`."""
    roots = {name for one in listed if one.cell in whole for name in one.used}
    needed = _needed(listed, {*entries, *roots}) | {"*"}  # any name may come from a module that is imported whole
    known, kept = set(_BUILTINS), set[int]()
    for statement in listed:
        # A constant made of something that does not count would raise NameError.
        constant = _is_plain(statement.node) and (isinstance(statement.node, _DEFINITIONS) or statement.used <= known)
        if statement.cell in whole or statement.bound & needed or (constant and statement.cell not in helping):
            known |= statement.bound
            kept.add(id(statement.node))
    return kept


def defines(text: str, entries: Collection[str]) -> bool:
    """Returns whether a cell binds one of the entries. Where it is not valid Python, a line that looks like it is
    enough."""
    if (tree := imports.parse(text)) is None:
        return any(re.search(rf"^(def|class)\s+{re.escape(name)}\b", text, re.MULTILINE) for name in entries)
    return any(_bound(node) & set(entries) for node in tree.body)


def has_definition(text: str, name: str) -> bool:
    """Returns whether a cell, which is valid Python, defines a function or a class of that name."""
    tree = imports.parse(text)
    return any(getattr(node, "name", "") == name for node in tree.body) if tree else False


def without(text: str, names: Collection[str]) -> str:
    """Returns a cell, which is valid Python, without the statements that bind one of the names."""
    tree = imports.parse(text)
    return _without(text, tree, [node for node in tree.body if _bound(node) & set(names)]) if tree else text


def _needed(listed: Sequence[_Statement], roots: set[str]) -> set[str]:
    """Returns the names that the roots use, directly or not, and the roots."""
    uses: dict[str, set[str]] = {}
    for statement in listed:
        for name in statement.bound:
            uses.setdefault(name, set()).update(statement.used)
    needed, unread = set(roots), list(roots)
    while unread:
        new = uses.get(unread.pop(), set()) - needed
        needed |= new
        unread += new
    return needed


def _is_plain(node: ast.stmt) -> bool:
    """Returns whether a statement is an import, a definition or a constant, or a condition around these."""
    match node:
        case ast.Assign() | ast.AnnAssign():
            return node.value is not None and not _calls(node.value)
        case ast.If():
            return not _calls(node.test) and all(map(_is_plain, [*node.body, *node.orelse]))
        case ast.Try():
            handlers = [inner for handler in node.handlers for inner in handler.body]
            return all(map(_is_plain, [*node.body, *handlers, *node.orelse, *node.finalbody]))
        case ast.Expr():  # a docstring
            return isinstance(node.value, ast.Constant)
        case _:
            return isinstance(node, (*_DEFINITIONS, ast.Pass))


def _calls(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Call | ast.Await) for inner in ast.walk(node))


def _bound(node: ast.stmt) -> frozenset[str]:
    """Returns the names that a statement assigns, imports or defines, or whose attributes or items it assigns."""
    names = set[str]()
    unread: list[ast.AST] = [node]  # no recursion: a sum may have thousands of terms
    while unread:
        match inner := unread.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(inner.name)
            case ast.Import() | ast.ImportFrom():
                names.update(alias.asname or alias.name.partition(".")[0] for alias in inner.names)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                base: ast.AST = inner
                while isinstance(base, ast.Attribute | ast.Subscript):
                    base = base.value
                names.update([base.id] if isinstance(base, ast.Name) else [])
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass  # it binds names of its own
            case _:
                unread += ast.iter_child_nodes(inner)
    return frozenset(names)


def _used(node: ast.stmt) -> frozenset[str]:
    """Returns the global names that a statement refers to, also inside functions."""
    try:
        table = symtable.symtable(ast.unparse(node), "cell", "exec")
        return frozenset(_referenced(table, top=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _referenced(table: symtable.SymbolTable, *, top: bool = False) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _referenced(child)


def _without(text: str, tree: ast.Module, dropped: Sequence[ast.stmt]) -> str:
    """Returns the text without some of its statements. One that shares a line with another becomes `pass`."""
    out = {id(node) for node in dropped}
    busy = {line for node in tree.body if id(node) not in out for line in (node.lineno, node.end_lineno)}
    lines: list[bytes | None] = [*text.encode().split(b"\n")]
    for node in reversed(dropped):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        start, end = lines[first], lines[last]
        if busy & {first + 1, last + 1} and start is not None and end is not None:
            lines[first] = start[: node.col_offset] + b"pass" + end[node.end_col_offset or 0 :]
            lines[first + 1 : last + 1] = [None] * (last - first)
        else:
            lines[first : last + 1] = [None] * (last - first + 1)
    return b"\n".join(line for line in lines if line is not None).decode()
