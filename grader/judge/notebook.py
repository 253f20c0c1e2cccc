"""A notebook as a submission: the text of the cells that count."""

import ast
import json
import re
from typing import Any

TAG = "grade"
_MAGIC = re.compile(r"^\s*[%!?]|\?\s*$", re.MULTILINE)
_PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NotebookError(Exception):
    """It is no notebook, or has nothing to grade; the message says why."""


def source(data: bytes, entries: list[str]) -> tuple[str, str]:
    """The Python text of a notebook, and a sentence on what was taken.

    Cells tagged `grade` count; if there are none, those that define an entry, and those that do nothing but import, define and
    name constants. Lines for the notebook itself (`%magic`, `!command`, `help?`) and whole `%%` cells are left out. Raises
    NotebookError.
    """
    cells = _code_cells(data)
    tagged = [number for number, (_, tags) in cells.items() if TAG in tags]
    texts = {number: _without_magics(text) for number, (text, _) in cells.items()}
    magics = sum(texts[number] != cells[number][0] for number in cells)
    used = tagged or [number for number, text in texts.items() if text.strip() and _counts(text, entries)]
    if not used:
        names = " or ".join(f"`{name}`" for name in entries)
        raise NotebookError(f"has no cell that defines {names}; tag the cells to grade with `{TAG}`")
    listed = ", ".join(map(str, used))
    said = f"of the notebook's {len(cells)} code cells, {'those tagged' if tagged else 'the definitions in'} {listed} are graded"
    said += "; lines with magics are left out" if magics else ""
    return "\n\n".join(texts[number] for number in used) + "\n", said


def _code_cells(data: bytes) -> dict[int, tuple[str, list[Any]]]:
    """Text and tags of each code cell, by its place among all cells, from 1."""
    try:
        cells = json.loads(data)["cells"]
        found = {}
        for number, cell in enumerate(cells, 1):
            if cell["cell_type"] == "code":
                text = cell["source"]
                text = text if isinstance(text, str) else "".join(text)
                found[number] = (text, list(cell.get("metadata", {}).get("tags", [])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotebookError("is no notebook that can be read") from None
    return found


def _without_magics(text: str) -> str:
    if text.lstrip().startswith("%%"):
        return ""
    return "\n".join(line for line in text.split("\n") if not _MAGIC.search(line))


def _counts(text: str, entries: list[str]) -> bool:
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(re.search(rf"^(def|class)\s+{re.escape(name)}\b", text, re.MULTILINE) for name in entries)
    if any(getattr(statement, "name", "") in entries for statement in statements):
        return True
    return all(isinstance(statement, _PLAIN) or _is_constant(statement) for statement in statements)


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    return not any(isinstance(node, ast.Call) for node in ast.walk(statement.value))
