"""What makes two files the same code."""

import ast
import inspect
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch.similarity import without_comments
from tests.grader.batch.conftest import GOOD

COMMENTS = st.lists(st.tuples(st.integers(0, 30), st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))))


@pytest.mark.parametrize(
    "source", [GOOD, *map(inspect.getsource, (random, json.encoder, inspect))], ids=lambda text: text[3:20]
)
def test_the_code_and_its_places_remain(source: str):
    reduced = without_comments(source)
    assert ast.dump(ast.parse(reduced), include_attributes=True) == ast.dump(ast.parse(source), include_attributes=True)


@given(COMMENTS)
def test_comments_of_their_own_make_no_difference(comments: list[tuple[int, str]]):
    def commented(comment: Callable[[str], str]) -> str:
        lines = GOOD.split("\n")
        top = next(number for number, line in enumerate(lines) if line.startswith("import"))
        for place, text in comments:
            lines.insert(top + place % 2, comment(text))
        return without_comments("\n".join(lines))

    assert commented(lambda text: f"  # {text}") == commented(lambda _: "#")


@pytest.mark.parametrize(
    "text",
    ["x = 1  # one\n", '"""\n# in a string\n"""\n', "x = (\n# open\n", "bad\n\tx\n  y = 'a\n", "# \x0c\rx = 1\n"],
)
def test_all_else_is_kept(text: str):
    """What follows code on its line is shown with it; files that cannot be read as tokens stay as they are."""
    assert without_comments(text) == text
