"""The report as HTML: valid, self-contained, escaped, and readable without colors."""

import re

import html5lib
import numpy as np
import pytest

from grader.course import catalog
from grader.course.catalog import Misconception
from grader.exhibits import Ending, Table
from grader.judge.counterexample import Counterexample, Part, compared
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import EXACT, Case
from grader.report import exhibits_page, html_report
from grader.wire.compare import WHOLE, Leaf, compare
from tests.grader.report.reports import report_of

pytestmark = pytest.mark.fast

SCRIPT = "<script>alert(1)</script>"


def failing(expected: dict, got: dict, idea: dict | None = None, case: dict | None = None, **fields) -> Report:
    """A report on outputs that differ."""
    check, inputs = catalog.find("02").checks[0], Case(case or {})
    sides = [[Leaf(path, str(x.dtype), x) for path, x in side.items()] for side in (expected, got, idea or {})]
    mismatch = compare(sides[0], sides[1], EXACT)
    shown = Counterexample(inputs, compared(check, mismatch, sides, EXACT), EXACT, fields.pop("tree", ()))
    result = CheckResult(check, Verdict.FAIL, mismatch.sentence(), mismatch, inputs)
    return Report(catalog.find("02"), "mine.py", [result], counterexample=shown, **fields)


def parsed(report: Report):
    """The document, parsed strictly: any error in the markup is raised."""
    text = html_report.document(report)
    assert "<script" not in text
    assert not re.search(r"(src=|href|url\()", text), "nothing is fetched"
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def cells(tree, panel: str) -> list:
    """The cells with values of the panel of that name."""
    (table,) = [table for table in tree.iter("table") if "".join(table.find("caption").itertext()) == panel]
    return [cell for cell in table.iter("td") if "cell" in cell.get("class", "")]


def test_a_play_stands_below_the_report():
    played = exhibits_page.article("See it work", [Table("Numbers", ("n",), (("1",),))], Ending("", "", ""))
    text = html_report.document(failing({"output": MATRIX}, {"output": MATRIX + 1}), played)
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    assert [article.get("class") for article in tree.iter("article")] == ["verdict", "verdict play"]
    assert "&lt;" not in text


MATRIX = np.float32([[1, 2, 3], [4, 5, -1e9], [7, 8, np.nan]])


def test_expected_yours_and_the_difference_are_drawn_on_the_same_scale():
    wrong = MATRIX.copy()
    wrong[1, 1], wrong[2, 0] = 6, np.nan
    tree = parsed(failing({"output": MATRIX}, {"output": wrong}))
    expected, yours, difference = (cells(tree, name) for name in ("Expected", "Yours", "Difference"))
    # The outliers, -1e9 and NaN, do not flatten the scale.
    assert [cell.get("class").split()[1:3] for cell in expected[:3]] == [
        ["value", "t0"],
        ["value", "t1"],
        ["value", "t3"],
    ]
    assert [expected[place].get("class").split()[1] for place in (5, 8)] == ["under", "nan"]
    assert [cell.get("class") for cell in expected[:2]] == [cell.get("class") for cell in yours[:2]]
    assert "first" in yours[4].get("class")
    assert yours[4].get("title") == "output[1, 1] = 6, expected 5"
    assert [place for place, cell in enumerate(yours) if "".join(cell.itertext()).endswith("wrong")] == [4, 6]
    assert [place for place, cell in enumerate(yours) if cell.get("tabindex")] == [4, 6], "the Tab key reaches them"
    assert difference[4].text == "1"
    assert "positive t10" in difference[4].get("class")
    assert difference[0].text == "0"


def test_the_misconception_beside_the_learners_numbers():
    idea = Misconception("doubled", "Do not double.", "a", ("b",))
    same = failing({"output": MATRIX[:1]}, {"output": 2 * MATRIX[:1]}, {"output": 2 * MATRIX[:1]}, misconception=idea)
    assert [cell.text for cell in cells(parsed(same), "This idea")] == ["2", "4", "6"]
    assert "This idea gives exactly your numbers." in html_report.render(same)
    other = failing({"output": MATRIX[:1]}, {"output": 2 * MATRIX[:1]}, {"output": MATRIX[:1] + 1}, misconception=idea)
    assert "This idea gives 1 of your 3 numbers." in html_report.render(other)


def test_integers_and_trees_are_tables():
    ids, n = np.int32([[3, 1], [2, 0]]), np.int32(7)
    tree = parsed(failing({"output.ids": ids, "output.n": n}, {"output.ids": ids[::-1], "output.n": n}))
    assert [cell.text for cell in cells(tree, "Expected")] == ["3", "1", "2", "0"]
    rows = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert ["ids", "int32[2, 2]", "int32[2, 2]", "4 of 4 differ"] in rows
    assert ["n", "7", "7", "right"] in rows
    renamed = parsed(failing({"output.bias": ids}, {"output.b": ids}))
    rows = [[cell.text for cell in row] for row in renamed.iter("tr")]
    assert ["bias", "int32[2, 2]", "none", "missing"] in rows
    assert ["b", "none", "int32[2, 2]", "unexpected"] in rows


@pytest.mark.parametrize("shape", [(), (60,), (2, 0), (90, 80), (4, 30, 40), (2, 3, 4, 5)])
def test_arrays_of_all_shapes_are_bounded(shape):
    right = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    report = failing(
        {"output": right, "output.last": np.ones(2, np.float32)},
        {"output": right + 10, "output.last": np.zeros(2, np.float32)},
    )
    parsed(report)
    assert len(html_report.render(report)) < 600_000


def test_a_large_array_is_cut_around_its_first_wrong_value():
    right = np.zeros((300, 400), np.float32)
    wrong = right.copy()
    wrong[123, 321] = 1
    report = failing({"output": right}, {"output": wrong})
    text = html_report.render(report)
    assert "output[123, 321] = 1, expected 0" in text
    assert "of 300 × 400 values, around the first wrong one." in text
    (leaf,) = report.counterexample.leaves
    assert leaf.got.values.size < 2000, "what a report keeps is bounded, too"


def test_the_guilty_part_is_marked_on_the_tree():
    parts = (
        Part(WHOLE, "wrong"),
        Part("blocks.0", "wrong"),
        Part("blocks.0.attn", "faulty"),
        Part("ln", "never called"),
    )
    report = failing({"output": MATRIX}, {"output": MATRIX + 1}, tree=parts, fault="`blocks.0.attn` is wrong.")
    tree = parsed(report)
    (guilty,) = [span for span in tree.iter("span") if "faulty" in span.get("class", "")]
    assert "".join(guilty.itertext()) == "attn receives the right input, returns the wrong output"
    assert "<code>blocks.0.attn</code> is wrong." in html_report.render(report)


def test_all_text_is_escaped():
    idea = Misconception(SCRIPT, SCRIPT, "a", ("b",))
    report = failing(
        {"output": MATRIX, f"output.{SCRIPT}": MATRIX}, {"output": MATRIX + 1, f'output."onload={SCRIPT}': MATRIX},
        case={SCRIPT: MATRIX, "text": SCRIPT}, misconception=idea, stdout=SCRIPT, eager_stdout=f"</pre>{SCRIPT}",
        frames=f"{SCRIPT}.py, line 3, in {SCRIPT}\n    {SCRIPT}", notes=[SCRIPT], remarks=[SCRIPT], fault=SCRIPT,
    )  # fmt: skip
    parsed(report)
    assert SCRIPT not in html_report.render(report)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_a_valid_page(verdict):
    frames = "a.py, line 3\n    x = 1\nb.py, line 4, in f"
    report = report_of(*[verdict] * 5, stdout="hello\n" * 500, frames=frames)
    parsed(report)
    text = html_report.render(report)
    assert f">{verdict}</span>" in text
    assert 'data-line="3"' in text or verdict in (Verdict.PASS, Verdict.NOT_ATTEMPTED)
    assert text.count("hello") <= 100


def test_an_eager_run_is_said_to_be_one():
    text = html_report.render(report_of(Verdict.FAIL, stdout="x JitTracer(float32[2])", eager_stdout="x [1. 2.]"))
    assert text.index("In an eager run of this case") < text.index("x [1. 2.]") < text.index("JitTracer")
