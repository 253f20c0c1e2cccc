"""A notebook as a submission: the Python text of the cells that count."""

import ast
import json
import re
from typing import Any

from grader.course import catalog

TAG = "grade"
MOST_CODE = 1 << 20  # characters in all code cells together
MOST_CELLS = 2_000  # code cells; each is parsed
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# `%magic`, `!command`, `?help` and `help?`. At the start of a statement none of them is Python.
_MAGIC = re.compile(r"\s*(?:[%!?].*|[\w.*%]+\?\??\s*)", re.DOTALL)
# The marks that decide whether the next line starts a statement.
_MARK = re.compile(r"""\\.?|\"{3}|'{3}|["'#()\[\]{}]""", re.DOTALL)


class NotebookError(Exception):
    """The file is not a notebook or has nothing to grade; the message says why."""


def source(data: bytes, entries: list[str]) -> tuple[str, str]:
    """The Python text of a notebook, and a note on which cells were taken.

    Cells tagged `grade` count. If no cell is tagged, those count that define an entry, and those that only import, define
    and assign constants. Magics (`%magic`, `!command`, `help?`) and whole `%%` cells are left out. Raises NotebookError.
    """
    cells = _code_cells(data)
    texts = {number: _without_magics(text) for number, (text, _) in cells.items()}
    tagged = [number for number, (_, tags) in cells.items() if TAG in tags]
    graded = tagged or [number for number, text in texts.items() if text.strip() and _counts(text, entries)]
    if not graded:
        names = " or ".join(f"`{name}`" for name in entries)
        raise NotebookError(f"has no cell that defines {names}; tag the cells to grade with `{TAG}`")
    kind = f"tagged `{TAG}`" if tagged else "with definitions"
    places = ", ".join(map(str, graded))
    taken = f"cell {places}, {kind}, is graded" if len(graded) == 1 else f"cells {places}, {kind}, are graded"
    note = f"of the notebook's {len(cells)} code cells, {taken}"
    if any(texts[number] != cells[number][0] for number in cells):
        note += "; lines with magics are left out"
    return "\n\n".join(texts[number] for number in graded) + "\n", note


def code(data: bytes) -> str:
    """The text of all code cells. Raises NotebookError."""
    return "\n".join(text for text, _ in _code_cells(data).values())


def _code_cells(data: bytes) -> dict[int, tuple[str, list[Any]]]:
    """The text and the tags of each code cell, by its position among all cells, from 1. Raises NotebookError."""
    try:
        code_cells: dict[int, tuple[str, list[Any]]] = {}
        for number, cell in enumerate(json.loads(data)["cells"], 1):
            if cell["cell_type"] == "code":
                text = cell["source"]
                text = text if isinstance(text, str) else "".join(text)
                code_cells[number] = (text, list(cell.get("metadata", {}).get("tags", [])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotebookError("is not a readable notebook") from None
    if len(code_cells) > MOST_CELLS:
        raise NotebookError(f"has more than {MOST_CELLS:,} code cells, the limit")
    if sum(len(text) for text, _ in code_cells.values()) > MOST_CODE:
        raise NotebookError(f"has more than {MOST_CODE >> 20} MiB of code, the size limit")
    if broken := [number for number, (text, _) in code_cells.items() if _SURROGATE.search(text)]:
        raise NotebookError(
            f"has half of a character (a lone surrogate) in cell {broken[0]}; no Python file can hold it"
        )
    return code_cells


def _without_magics(text: str) -> str:
    """The cell without its magics. A cell that parses as Python has none."""
    if text.lstrip().startswith("%%"):
        return ""
    if catalog.parse(text) is not None:
        return text
    kept, quote, depth = list[str](), "", 0
    in_magic = continued = False
    for line in text.split("\n"):
        if in_magic or (not (quote or depth or continued) and _MAGIC.fullmatch(line)):
            if not in_magic and line[:1].isspace():  # it may be the only statement of its block
                kept.append(line[: len(line) - len(line.lstrip())] + "pass")
            in_magic = line.endswith("\\")
        else:
            kept.append(line)
            quote, depth, continued = _after(line, quote, depth)
    return "\n".join(kept)


def _after(line: str, quote: str, depth: int) -> tuple[str, int, bool]:
    """The quotation mark that is open after a line, the number of open brackets, and whether a backslash continues the line.

    `quote` and `depth` are those before the line.
    """
    mark = ""
    for mark in _MARK.findall(line):
        if quote:
            quote = "" if mark == quote else quote
        elif mark == "#":
            break
        elif mark[0] in "\"'":
            quote = mark
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth = max(0, depth - 1)
    continued = mark == "\\"
    return quote if continued or len(quote) == 3 else "", depth, continued


def _counts(text: str, entries: list[str]) -> bool:
    """Whether an untagged cell counts: it defines an entry, or only imports, defines and assigns constants."""
    tree = catalog.parse(text)
    if tree is None:
        return any(re.search(rf"^(def|class)\s+{re.escape(name)}\b", text, re.MULTILINE) for name in entries)
    if any(getattr(statement, "name", "") in entries for statement in tree.body):
        return True
    return all(isinstance(statement, _PLAIN) or _is_constant(statement) for statement in tree.body)


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    return not any(isinstance(node, ast.Call) for node in ast.walk(statement.value))
