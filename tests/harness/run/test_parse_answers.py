"""Answers in texts: each form of the right one is read, and no wrong one is ever taken for it."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.run.parse_answers import number_in, numbers_and_value

pytestmark = pytest.mark.fast

FORMS: dict[str, Callable[[str], str]] = {
    "alone": lambda number: number,
    "alone with spaces and a full stop": lambda number: f" {number}.\n",
    "equation": lambda number: f"40 + 2 = {number}",
    "equations": lambda number: f"1+1=2, 20+20=40. So 40+2={number}.",
    "sentence": lambda number: f"First 7 and 8 make 15. The answer is {number}.",
    "sentence and reason": lambda number: f"The answer is {number}, because 2 * 21 = 42.",
    "colon": lambda number: f"Answer: {number}",
    "bold": lambda number: f"The final answer is: **{number}**.",
    "dollars": lambda number: f"The answer is ${number}.",
    "boxed": lambda number: f"I think = 7, so $\\boxed{{{number}}}$.",
    "LaTeX": lambda number: f"The answer is \\({number}\\).",
    "GSM8K": lambda number: f"6 * 7 = 5. #### {number}",
}
numbers = st.one_of(
    st.integers(-(10**7), 10**7).map(Fraction),
    st.decimals(-1000, 1000, places=2).map(Fraction),
    st.builds(Fraction, st.integers(-99, 99), st.integers(1, 99)),
)


def spellings(number: Fraction) -> list[str]:
    """Ways to write a number."""
    signs = {"-": ["-", "−"], "": ["", "+"]}["-" if number < 0 else ""]
    size = abs(number)
    if size.denominator == 1:
        bodies = [f"{size.numerator}", f"{size.numerator:,}", f"{size.numerator}.0"]
    elif 100 % size.denominator == 0:
        bodies = [f"{float(size):.2f}", f"{float(size):,.2f}"]
    else:
        bodies = [f"{size.numerator}/{size.denominator}", f"\\frac{{{size.numerator}}}{{{size.denominator}}}"]
    return [sign + body for sign in signs for body in bodies]


@given(st.sampled_from(sorted(FORMS)), numbers, st.data())
def test_each_form_of_a_number_is_read_exactly(form: str, number: Fraction, data: st.DataObject) -> None:
    text = FORMS[form](data.draw(st.sampled_from(spellings(number))))
    assert number_in(text) == number, text


CHANGES = (
    "5",
    ",5",
    ".5.",
    "e3",
    "km",
    "²",
    "^2",
    " + 1",
    "*2",
    "-1",
    " / 3",
    " or 5",
    " to 5",
    " million",
    " thousand",
    " 7",
)


@given(st.sampled_from(sorted(FORMS)), numbers, st.sampled_from(CHANGES), st.data())
def test_a_number_that_something_changes_is_another_or_none(
    form: str, number: Fraction, change: str, data: st.DataObject
) -> None:
    text = FORMS[form](data.draw(st.sampled_from(spellings(number))) + change)
    assert number_in(text) != number, text


@pytest.mark.parametrize(
    "text",
    [
        "", "no number", "42 or 43", "The answer is 42 or 43.", "= 42 + 1", "= 42 * 10", "4 "
            "2", "1,23", "1,2345", "12,34,567",
        "42km", "4e2", "x42", "42nd", "3.5.2", "42 million", "42 thousand", "The answer is not "
            "42.", "The answer is about 42.",
        "12-5", "5/0", "The answer is", "I have 42 apples", "It is 41 or it is 42", "= 42 - "
            "2", "= -", "The answer is 41 to 43",
        "\\boxed{}", "answers 42", "0x2A", "42²", "2^42", "--42", "= 4.", "The answer is 4 2.",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_not_taken_for_42(text: str) -> None:
    assert number_in(text) != 42


def test_the_last_of_several_answers_counts_and_boxes_come_first() -> None:
    assert number_in("The answer is 1. No, the answer is 2.") == 2
    assert number_in("\\boxed{3} #### 4. The answer is 5 = 6") == 3
    assert number_in("#### 4\nThe answer is 5 = 6") == 4


@pytest.mark.parametrize(
    ("text", "used", "value"),
    [
        ("3 * 5 + 7", [3, 5, 7], 22),
        (" (3+5)*2 = 16.", [3, 5, 2], 16),
        ("The answer is (1+2)*(3+4).", [1, 2, 3, 4], 21),
        ("So \\boxed{8 ÷ 3 × 3}", [8, 3, 3], 8),
        ("3 / 2", [3, 2], Fraction(3, 2)),
    ],
)
def test_expressions_are_read_with_their_numbers(text: str, used: list[int], value: Fraction | int) -> None:
    assert numbers_and_value(text) == (Counter(used), Fraction(value))


@pytest.mark.parametrize(
    "text",
    ["", "3 ** 5", "1 / 0", "((1)", "9 // 2", "-3 + 5", "1.5 * 2", "__import__('os')", "3 + x", "(" * 500, "1" * 500],
)
def test_anything_else_is_no_expression(text: str) -> None:
    assert numbers_and_value(text) is None
