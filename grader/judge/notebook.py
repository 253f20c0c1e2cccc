"""A notebook as a submission: the Python text of the cells that count."""

import json
import re
from collections.abc import Sequence
from typing import Any

from grader.course import imports
from grader.judge import statements

TAG = "grade"
RULE = (
    "in each cell, imports, definitions and constants count, and assignments that the graded definitions use; "
    f"a cell with the tag “{TAG}” counts whole"
)
MOST_CODE = 1 << 20  # characters in all code cells together
MOST_CELLS = 2_000  # code cells; each is parsed
MOST_JSON = 8 << 20  # bytes, without the parts below
_MOST_MARKS = 4 << 20  # strings and brackets that are looked at to find these parts
_NOT_CODE = (b'"outputs"', b'"attachments"', b'"widgets"')  # the names of the parts that may be large
# A string or a bracket of JSON. A string without an end takes the rest: otherwise each of its quotes would begin a
# search.
_JSON_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OPENING = re.compile(rb"\s*:\s*[\[{]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# `%magic`, `!command`, `?help`, `help?` and `x = %magic`. At the start of a statement none of them is Python.
_MAGIC = re.compile(r"\s*+(?:[%!?].*|[\w.*%]++\?\??\s*|[\w.,\[\]* \t]++=[ \t]*[%!].*)", re.DOTALL)
_CELL_MAGIC = re.compile(r"\s*%%(\S*)[^\n]*(?:\n|$)")
# The cell magics after which a cell is not Python that the notebook runs. Others, such as `%%time`, run it.
_OTHER_LANGUAGES = frozenset(
    "! bash cmd cython file html HTML javascript js latex markdown perl pypy python2 R ruby script sh sql svg SVG sx "
    "system writefile".split()
)
# The marks that decide whether the next line starts a statement.
_MARK = re.compile(r"""\\.?|\"{3}|'{3}|["'#()\[\]{}]""", re.DOTALL)


class NotebookError(Exception):
    """The file is not a notebook or has nothing to grade; the message says why."""


def source(data: bytes, entries: list[str]) -> tuple[str, str]:
    """Returns the Python text of a notebook, and a note on the cells that were taken. `RULE` explains which ones count.

    Raises NotebookError.
    """
    cells = _code_cells(data)
    texts = {number: _without_magics(text) for number, (text, _) in cells.items()}
    tagged = {number for number, (_, tags) in cells.items() if TAG in tags}
    counting = statements.counting(texts, tagged, entries)
    graded = {number: text for number, text in counting.items() if text.strip()}
    if not any(statements.defines(text, entries) for text in graded.values()) and not tagged:
        names = " or ".join(f"`{name}`" for name in entries)
        raise NotebookError(f"has no cell that defines {names}; {RULE}")
    places = ", ".join(map(str, graded))
    taken = f"cell {places} is graded" if len(graded) == 1 else f"cells {places} are graded"
    note = f"of the notebook's {len(cells)} code cells, {taken}"
    if any(counting[number] != texts[number] for number in cells):
        note += f"; {RULE}"
    if any(texts[number] != cells[number][0] for number in cells):
        note += "; lines with magics are left out"
    return "\n\n".join(graded.values()) + "\n", note


def of_session(earlier: Sequence[str], cell: str, entries: list[str]) -> str:
    """Returns the Python text that a session hands in: `cell`, and the parts that it uses of earlier cells that are
    valid Python.

    Only `cell` may define an entry, unless it defines none: earlier attempts do not count. Then the last definition of
    an entry counts.
    """
    own = _without_magics(cell)
    others = [text for text in map(_without_magics, earlier) if imports.parse(text) is not None]
    if statements.defines(own, entries):
        others = [statements.without(text, entries) for text in others]
    for name in entries:
        last = max((place for place, text in enumerate(others) if statements.has_definition(text, name)), default=0)
        others[:last] = [statements.without(text, [name]) for text in others[:last]]
    counted = statements.counting(dict(enumerate([*others, own])), (), entries, helping=range(len(others)))
    return "\n\n".join(text.strip("\n") for text in counted.values() if text.strip()) + "\n"


def code(data: bytes) -> str:
    """Returns the text of all code cells. Raises NotebookError."""
    return "\n".join(text for text, _ in _code_cells(data).values())


def _code_cells(data: bytes) -> dict[int, tuple[str, list[Any]]]:
    """Returns the text and the tags of each code cell, by its position among all cells, from 1. Raises
    NotebookError."""
    try:
        code_cells: dict[int, tuple[str, list[Any]]] = {}
        for number, cell in enumerate(_cells(json.loads(_without_outputs(data))), 1):
            if cell["cell_type"] == "code":
                text = cell["source"] if "source" in cell else cell["input"]
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


def _without_outputs(data: bytes) -> bytes:
    """Returns the JSON without the contents of outputs, attachments and widgets, such as images of megabytes. Raises
    NotebookError."""
    kept, start, depth, inside = list[bytes](), 0, 0, 0
    for count, mark in enumerate(_JSON_MARK.finditer(data)):
        if count > _MOST_MARKS:
            raise NotebookError(f"is not a readable notebook: it has more than {_MOST_MARKS:,} strings and brackets")
        text = mark[0]
        if text in b"[{":
            depth += 1
        elif text in b"]}":
            depth -= 1
            if inside and depth < inside:
                start, inside = mark.start(), 0
        elif not inside and text in _NOT_CODE and (opening := _OPENING.match(data, mark.end())):
            kept.append(data[start : opening.end()])
            inside = depth + 1
    if not inside:
        kept.append(data[start:])
    if sum(map(len, kept)) > MOST_JSON:
        raise NotebookError(f"is larger than {MOST_JSON >> 20} MiB, the size limit, even without its outputs")
    return b"".join(kept)


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the cells of a notebook. Before nbformat 4 they are in worksheets, and the text of a cell is its
    `input`."""
    if "worksheets" in notebook:
        return [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
    return list(notebook["cells"])


def _without_magics(text: str) -> str:
    """Returns the cell without its magics. A cell that parses as Python has none.

    Of a `%%time` cell, the other lines stay. Nothing remains of a cell in another language.
    """
    while match := _CELL_MAGIC.match(text):
        if match[1] in _OTHER_LANGUAGES:
            return ""
        text = text[match.end() :]
    if imports.parse(text) is not None:
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
    """Returns the quotation mark that is open after a line, the number of open brackets, and whether a backslash
    continues the line.

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
