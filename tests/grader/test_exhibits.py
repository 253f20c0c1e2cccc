"""Exhibits check themselves, and nothing else can cross from a submission's process."""

import json

import numpy as np
import pytest

from grader.exhibits import (
    Bar,
    Bars,
    ExhibitError,
    HeatMap,
    Line,
    Lines,
    Plane,
    Progress,
    Story,
    Table,
    Token,
    decode,
    encode,
)

pytestmark = pytest.mark.fast

STORY = Story(
    "A story", (Token("Once"), Token(" upon", 1.5, None, ((" a", 0.25),))), "What to see.", given=1, meaning="bits"
)
EXHIBITS = [
    STORY,
    Story("Two kinds", (Token("a", kind=0), Token("b", kind=1)), kinds=("accepted", "rejected")),
    HeatMap("A map", ("r",), ("a", "b"), (Plane(((0.5, float("inf")),), "head 1", (("x", "y"),)),)),
    Lines("Curves", (Line("yours", (0.0, 1.0), (2.0, 1.0)),), log=True),
    Bars("Bars", (Bar("loss", 1.0, 2.0), Bar("other", 3.0)), "nats"),
    Table("A table", ("word", "nearest"), (("king", "queen"),)),
    Progress(3, 10, 0.5),
]


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: type(exhibit).__name__)
def test_an_exhibit_survives_the_wire(exhibit):
    assert decode(json.loads(json.dumps(encode(exhibit)))) == exhibit


def test_arrays_become_numbers():
    exhibit = HeatMap("A map", ("r",), ("a", "b"), (Plane(np.array([[0.25, 0.5]], np.float32)),))
    assert exhibit.planes[0].values == ((0.25, 0.5),)
    assert Bar("loss", np.float32(0.5)).value == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Frame"}, {"kind": 1}, {"title": 3}, {"tokens": "abc"}, {"tokens": [{"text": "a"}]}, {"more": 1},
        {"given": 9}, {"given": -1}, {"given": True}, {"strongest": 0.0}, {"strongest": "1"}, {"separated": 1},
        {"tokens": [{"text": "a", "value": "1", "kind": None, "others": []}]},
        {"tokens": [{"text": "a", "value": True, "kind": None, "others": []}]},
        {"tokens": [{"text": "a", "value": None, "kind": 0, "others": []}]},
        {"tokens": [{"text": "a", "value": None, "kind": None, "others": [["b"]]}]},
        {"tokens": [{"text": "a", "value": None, "kind": None, "others": []}] * 601},
    ],
)  # fmt: skip
def test_what_is_no_exhibit_is_refused(change):
    with pytest.raises(ExhibitError):
        decode({**json.loads(json.dumps(encode(STORY))), **change})


def test_escape_sequences_and_long_texts_are_made_harmless():
    story = Story("\x1b[2J" + "t" * 500, (Token("\x1b]0;a\x07"), Token("\u202eabc"), Token("x" * 5000)))
    assert "\x1b" not in story.title + story.text
    assert "\u202e" not in story.text
    assert len(story.title) == 120
    assert len(story.tokens[2].text) == 60


def test_values_need_a_place():
    with pytest.raises(ExhibitError, match="for each row and column"):
        HeatMap("A map", ("r", "s"), ("a",), (Plane(((0.5,),)),))
    with pytest.raises(ExhibitError, match="one y for each x"):
        Line("yours", (0.0,), (1.0, 2.0))
    with pytest.raises(ExhibitError, match="at most"):
        Line("yours", tuple(range(501)), tuple(range(501)))
    with pytest.raises(ExhibitError, match="yields exhibits"):
        encode({"kind": "Story"})
