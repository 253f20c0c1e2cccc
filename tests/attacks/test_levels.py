"""The table of docs/security.md is what was measured, and what was measured is still so."""

import json
from collections.abc import Iterator

import pytest

from tests.attacks import levels
from tests.attacks.arena import FAMILIES, Arena, outcome

FOUND = json.loads(levels.FOUND.read_text())
EVERY = 24  # of the attacks that a level stopped, so many are passed over for each that is tried again


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("arena"))
    yield made
    made.close()


def test_the_table_is_fresh():
    page = levels.PAGE.read_text()
    assert levels.table(FOUND) in page


def test_nothing_gets_through_strict_isolation():
    assert FOUND[""] == {}


@pytest.mark.parametrize("without", levels.PARTIAL)
def test_what_was_measured_is_still_so(arena: Arena, without: str):
    tried = levels.tried(without)
    through = [place for place in tried if ": ".join(place) in FOUND[without]]
    for place in {*through, *tried[::EVERY]}:
        wrong = outcome(arena, FAMILIES[place[0]][place[1]], without)
        assert bool(wrong) == (place in through), (place, wrong)
