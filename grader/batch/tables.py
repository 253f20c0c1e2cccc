"""Tables for spreadsheets and gradebooks, as CSV that is safe to open."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from commandline import files

# The start of a formula, also in full width; at the start of a cell, or behind a character that some countries'
# spreadsheets take for the end of a cell: they ignore the quotation marks of a table with commas.
_FORMULA = re.compile(r"(^|[;\t\r\n|])([^\S\t\r\n]|[\ufeff\u200b])*(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table, whole or not at all, so that every spreadsheet shows its text as it is. Raises UsageError.

    It starts with a byte order mark, without which Excel garbles names. The header has no quotation marks: Canvas does
    not accept them behind that mark.
    """
    text = io.StringIO()
    text.write("\ufeff")
    csv.writer(text, lineterminator="\n").writerow(header)
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
        [_cell(value) for value in row] for row in rows
    )
    files.write(path, text.getvalue())


def _cell(value: Any) -> str:
    """Returns the value as text that no spreadsheet interprets as a formula. Learners can choose the text of some
    values."""
    if value == "-":  # how Moodle writes that there is nothing
        return "-"
    return _FORMULA.sub(r"\g<0>'", value) if isinstance(value, str) else "" if value is None else str(value)
