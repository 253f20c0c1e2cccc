"""Which files are nearly the same."""

from hypothesis import given
from hypothesis import strategies as st

from grader.batch import similarity
from grader.batch.store import Record
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, STUB
from tests.grader.batch.test_batch import OWN

PROBLEM = catalog.find("07")


def alike(*texts: str) -> list[tuple[str, str, float]]:
    records = [Record(str(n), PROBLEM.name, "", "", "PASS", 6, 6, source=text) for n, text in enumerate(texts)]
    return [(pair.one, pair.other, round(pair.likeness, 2)) for pair in similarity.pairs(PROBLEM, records)]


def test_other_names_comments_and_layout_are_the_same():
    other = "# mine\n\n" + OWN.replace("kept", "x").replace("total", "y").replace("    ", "  ").replace("3", "4")
    assert alike(OWN, other) == [("0", "1", 1.0)]


def test_what_everybody_has_does_not_count():
    assert alike(GOOD, GOOD, STUB, STUB) == []


def test_different_work_is_not_alike():
    assert (
        alike(
            OWN,
            "def f(a, b):\n    try:\n        return a ** b // (a - 1) @ b\n    except ZeroDivisionError:\n        raise\n"
            * 3,
        )
        == []
    )


@given(st.text(max_size=200))
def test_any_text_has_runs(text: str):
    similarity.runs(text)
