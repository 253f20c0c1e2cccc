"""Tables that any spreadsheet shows as text."""

import csv
import io
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.batch.tables import write_csv

pytestmark = pytest.mark.fast

STARTS = "=+-@＝＋－＠"
DANGEROUS = st.text(st.sampled_from(f"{STARTS};,\t\r\n|\" '1A(\ufeff\u200b"), max_size=12)


def written(cell: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_csv(path, ("learner", "message"), [("ada", cell)])
        return path.read_bytes().decode("utf-8")


@given(DANGEROUS | st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@example("\n=1+1")
@example("＝1+1")
@example('x;=cmd|" /C calc"!A0')
@example("\ufeff @SUM(A1)")
def test_no_cell_is_a_formula_whatever_separates_the_cells(cell: str):
    text = written(cell)
    assert text.startswith("\ufefflearner,message\n"), "a mark for Excel, and a header that Canvas can read behind it"
    ((name, kept),) = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))[1:]
    assert name == "ada"
    assert kept.replace("'", "") == cell.replace("'", "")
    if cell == "-":  # which no spreadsheet takes for a formula, and Moodle writes for nothing
        assert kept == cell
        return
    assert not kept.lstrip(" \t\r\n\ufeff\u200b").startswith(tuple(STARTS))
    for separator in ";\t|":  # in some countries, cells end there, and quotation marks within a cell are text
        for line in re.split("[\r\n]", text):
            for part in line.split(separator):
                assert not part.lstrip(" \ufeff\u200b").startswith(tuple(STARTS))


def test_numbers_stay_numbers():
    with tempfile.TemporaryDirectory() as folder:
        write_csv(Path(folder) / "t.csv", ("a",), [(-0.5,), (None,), (7,)])
        assert (Path(folder) / "t.csv").read_text(encoding="utf-8-sig") == 'a\n"-0.5"\n""\n"7"\n'
