"""The search for near-duplicate submissions."""

import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch import reader, similarity
from grader.batch.records import Record
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, OWN, STUB

pytestmark = pytest.mark.fast

PROBLEM = catalog.find("07")


def alike(*texts: str) -> list[tuple[str, str, float]]:
    """The pairs of near duplicates among the texts, which are numbered."""
    records = [Record(str(n), PROBLEM.name, "", "", "PASS", 6, 6, source=text) for n, text in enumerate(texts)]
    tokens = reader.tokens({"ada": {similarity.digest(text): text for text in texts}})
    return [(pair.one, pair.other, round(pair.similarity, 2)) for pair in similarity.pairs(PROBLEM, records, tokens)]


def test_other_names_comments_and_layout_are_the_same():
    other = "# mine\n\n" + OWN.replace("kept", "x").replace("total", "y").replace("    ", "  ").replace("3", "4")
    assert alike(OWN, other) == [("0", "1", 1.0)]


def test_code_of_the_stub_and_the_reference_does_not_count():
    assert alike(GOOD, GOOD, STUB, STUB) == []


def test_different_work_is_not_alike():
    other = (
        "def f(a, b):\n    try:\n        return a ** b // (a - 1) @ b\n    except ZeroDivisionError:\n        raise\n"
    )
    assert alike(OWN, 3 * other) == []


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str):
    similarity.sequences(text)


def token(kind: str, string: str) -> tokenize.TokenInfo:
    number = FSTRING_TYPES.get(kind) or getattr(tokenize, kind)
    return tokenize.TokenInfo(number, string, (1, 0), (1, 0), "")


# Python 3.12 tokens of `f"a{f'{x}'}b" + y`, with the numbers of that version where this one has no such types.
FSTRING_TYPES = {
    name: getattr(tokenize, name, number)
    for name, number in {"FSTRING_START": 61, "FSTRING_MIDDLE": 62, "FSTRING_END": 63}.items()
}
NESTED = [
    ("FSTRING_START", 'f"'), ("FSTRING_MIDDLE", "a"), ("OP", "{"), ("FSTRING_START", "f'"), ("OP", "{"), ("NAME", "x"),
    ("OP", "}"), ("FSTRING_END", "'"), ("OP", "}"), ("FSTRING_MIDDLE", "b"), ("FSTRING_END", '"'), ("OP", "+"), ("NAME", "y"),
]  # fmt: skip


def test_a_nested_f_string_of_python_3_12_is_one_string(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(similarity, "_STRING_STARTS", {FSTRING_TYPES["FSTRING_START"]})
    monkeypatch.setattr(similarity, "_STRING_ENDS", {FSTRING_TYPES["FSTRING_END"]})
    assert [kind for kind, *_ in similarity.reduced(token(*row) for row in NESTED)] == ["STRING", "+", "name"]


@pytest.mark.parametrize("string", ['"a"', 'f"a{x}b"', "f\"a{f'{x}'}b\"", 'rf"""{x!r:>{width}}"""'])
def test_an_f_string_is_one_string_on_this_python(string: str):
    tokens = tokenize.generate_tokens(io.StringIO(f"{string} + y").readline)
    assert [kind for kind, *_ in similarity.reduced(tokens)] == ["STRING", "+", "name"]


def test_other_text_in_f_strings_is_the_same():
    other = OWN.replace("not total[-1]", "not f'{total[-1]} is the last'")
    another = OWN.replace("not total[-1]", "not f'{total[0]:>{width}} comes first'")
    assert alike(other, another) == [("0", "1", 1.0)]
