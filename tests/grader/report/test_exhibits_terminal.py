"""Exhibits in a terminal: 72 columns, and no meaning in color alone."""

import click
import pytest
from rich.cells import cell_len

from grader.exhibits import Bar, Bars, HeatMap, Line, Lines, Plane, Story, Table, Token
from grader.report.exhibits_terminal import WIDTH, render

pytestmark = pytest.mark.fast

WORDS = ("Once", " upon", " a", " time", ",", " there", " was", " a", " 狐狸", ".", "\n\n", " She", " liked", " to")
LIKELIER = ((" cat", 0.31), (" dog", 0.0004))
STORY = Story(
    "Your GPT tells a story",
    tuple(Token(word, float(index), None, LIKELIER) for index, word in enumerate(WORDS)),
    "What to see. " * 8,
    given=4,
    meaning="bits of surprise",
)
MAP = HeatMap(
    "Attention", WORDS, WORDS,
    tuple(Plane([[float(j <= i) for j in range(14)] for i in range(14)], f"head {n}") for n in range(4)),
)  # fmt: skip
LINES = Lines(
    "Loss",
    (
        Line("yours", tuple(range(300)), tuple(8 - i / 50 for i in range(300))),
        Line("optax", (0, 300), (8, float("nan"))),
    ),
)
BARS = Bars("Bytes", (Bar("a label that is longer than its column", 1e6, 2e6), Bar("b", float("inf"))), "bytes")
TABLE = Table("Neighbors", ("word", "nearest"), (("king", "queen, " * 30),))
ALL = [STORY, MAP, LINES, BARS, TABLE]


@pytest.mark.parametrize("exhibit", ALL, ids=lambda exhibit: exhibit.title)
@pytest.mark.parametrize("width", [60, 72, 200])
@pytest.mark.parametrize("numbers", [False, True])
def test_lines_fit(exhibit, width, numbers):
    lines = click.unstyle(render(exhibit, width, numbers=numbers)).splitlines()
    assert len(lines) > 3
    assert max(map(cell_len, lines)) <= min(width, WIDTH)


def test_a_story_says_what_its_shades_mean():
    text = click.unstyle(render(STORY))
    assert "time▸, there was" in text
    assert "Highest bits of surprise: `␣to` 13 (likelier: `␣cat` 31%, `␣dog` <0.1%)" in " ".join(text.split())


def test_kinds_and_ends_of_tokens_are_seen_without_color():
    kinds = Story("Speculation", (Token("a", kind=0), Token(" b", kind=1)), kinds=("accepted", "rejected"))
    assert "accepted: 1 tokens  `a`" in click.unstyle(render(kinds))
    assert "Once│ upon│ a" in click.unstyle(render(Story("Tokens", STORY.tokens[:3], separated=True)))


def test_a_weight_in_the_future_is_seen():
    names = tuple("abcdefg")
    values = [[0.9, 0.1, 0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0, 0, 0], *[[0.0] * 7] * 5]
    leak = HeatMap("Attention", names, names, (Plane(values),))
    assert click.unstyle(render(leak)).splitlines()[1:4] == ["a ██··", "b ▒▒▒▒", "c"]
    few = HeatMap("Attention", ("a",), ("x", "y"), (Plane(((0.9, 0.1),)),))
    assert "█0.9" in click.unstyle(render(few))


def test_curves_have_marks_and_ends_in_words():
    text = click.unstyle(render(LINES))
    assert "● yours: from 8 to 2.02" in text
    assert "○ optax: from 8 to nan" in text


def test_numbers_stand_behind_every_picture():
    assert "  0     8      8" in click.unstyle(render(LINES, numbers=True)).splitlines()
    assert "nats" not in click.unstyle(render(BARS))
    assert "yours (bytes)" in click.unstyle(render(BARS, numbers=True))


def test_columns_that_count_up_are_named_by_the_first_and_the_last():
    steps = tuple(map(str, range(44)))
    counted = HeatMap("Steps", ("a",), steps, (Plane((tuple(map(float, range(44))),)),))
    assert "Columns: 0 to 43, from left to right." in click.unstyle(render(counted))
    others = HeatMap("Steps", ("a",), tuple("bcdefghij"), (Plane(((0.5,) * 9,)),))
    assert "Columns: b, c, d," in click.unstyle(render(others))


def test_a_story_has_at_most_one_empty_line_in_a_row():
    story = Story("Told", (Token("One"), Token("\n\n\n"), Token("\n\n"), Token("day")))
    assert click.unstyle(render(story)).splitlines()[1:] == ["  One", "", "  day"]


def test_a_level_curve_has_one_value():
    text = click.unstyle(render(Lines("Loss", (Line("a guess", (1, 2, 3), (2.77, 2.77, 2.77)),))))
    assert "a guess: always 2.77" in text
