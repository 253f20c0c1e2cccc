"""The search for near-duplicate submissions."""

import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch import reader, similarity
from grader.batch.records import Known, Record
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, OWN, STUB

pytestmark = pytest.mark.fast

PROBLEM = catalog.find("07")


def compared(texts: dict[str, str], *known: Known) -> tuple[list[tuple[str, str, float]], list[tuple[str, str, float]]]:
    """What the texts of learners are like: known solutions, then each other."""
    records = [Record(learner, PROBLEM.name, "", "", "PASS", 6, 6, source=text) for learner, text in texts.items()]
    tokens = reader.tokens({"ada": {similarity.digest(text): text for text in texts.values()}})
    likenesses, pairs = similarity.compare(PROBLEM, records, tokens, similarity.known(PROBLEM, known))
    return (
        [(one.learner, one.known, round(one.similarity, 2)) for one in likenesses],
        [(pair.one, pair.other, round(pair.similarity, 2)) for pair in pairs],
    )


def alike(*texts: str) -> list[tuple[str, str, float]]:
    """The pairs of near duplicates among the texts, which are numbered."""
    return compared({str(number): text for number, text in enumerate(texts)})[1]


def solution(name: str, text: str) -> Known:
    return Known(PROBLEM.name, name, similarity.sequences(text))


def test_other_names_comments_and_layout_are_the_same():
    other = "# mine\n\n" + OWN.replace("kept", "x").replace("total", "y").replace("    ", "  ").replace("3", "4")
    assert alike(OWN, other) == [("0", "1", 1.0)]


def test_code_of_the_stub_and_the_reference_does_not_count():
    assert alike(GOOD, GOOD, STUB, STUB) == []


def test_who_hands_in_the_reference_is_named_and_not_for_the_others():
    renamed = "# mine\n" + GOOD.replace("losses", "my_losses")
    likenesses, pairs = compared({"ada": GOOD, "bob": renamed, "cleo": STUB, "dan": OWN})
    assert likenesses == [("ada", similarity.REFERENCE, 1), ("bob", similarity.REFERENCE, 1)]
    assert pairs == []


def test_no_correct_program_in_another_style_is_like_the_reference():
    for problem in catalog.problems()[:12]:
        reference, *others = similarity.known(problem)
        assert len(reference.sequences) >= similarity.FEWEST, "it can be recognized"
        for other in others:
            union = reference.sequences | other.sequences
            assert len(reference.sequences & other.sequences) < similarity.THRESHOLD * len(union), other.name


def test_code_of_the_page_does_not_count():
    block = catalog.page_text(PROBLEM).split("```python\n")[1].split("```")[0]
    assert len(similarity.sequences(block)) >= similarity.FEWEST
    assert "page" not in [one.name for one in similarity.known(PROBLEM, [solution("page", block)])]


FOUND = catalog.solution_text(catalog.find("43"))  # long, and of another problem
BEYOND = """
def another(rows):
    with open(rows) as file:
        lines = {line.strip(): number for number, line in enumerate(file) if not line.startswith("#")}
    return sorted(lines, key=lines.get, reverse=True)[:10] or None
"""


def test_two_who_resemble_a_known_solution_are_not_called_alike():
    found = solution("2025/eve/p07.py", FOUND)
    changed = FOUND + BEYOND
    likenesses, pairs = compared({"ada": FOUND, "bob": FOUND, "cleo": changed}, found)
    assert likenesses[:2] == [("ada", found.name, 1), ("bob", found.name, 1)]
    assert likenesses[2][:2] == ("cleo", found.name)
    assert 0.8 < likenesses[2][2] < 1
    assert pairs == []
    assert compared({"ada": FOUND, "bob": FOUND})[1] == [("ada", "bob", 1)], "nobody knows the solution"


def test_what_they_share_beyond_it_counts():
    likenesses, pairs = compared({"ada": FOUND + BEYOND, "bob": FOUND + BEYOND, "cleo": FOUND}, solution("x.py", FOUND))
    assert [learner for learner, *_ in likenesses] == ["cleo", "ada", "bob"]
    assert pairs == [("ada", "bob", 1)]


def test_a_known_file_that_says_nothing_new_is_left_out():
    known = similarity.known(
        PROBLEM, [solution("a", STUB), solution("b", GOOD), solution("c", OWN), solution("d", OWN)]
    )
    assert [one.name for one in known if one.name in "abcd"] == ["c"]


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
    ("FSTRING_START", 'f"'),
    ("FSTRING_MIDDLE", "a"),
    ("OP", "{"),
    ("FSTRING_START", "f'"),
    ("OP", "{"),
    ("NAME", "x"),
    ("OP", "}"),
    ("FSTRING_END", "'"),
    ("OP", "}"),
    ("FSTRING_MIDDLE", "b"),
    ("FSTRING_END", '"'),
    ("OP", "+"),
    ("NAME", "y"),
]


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
