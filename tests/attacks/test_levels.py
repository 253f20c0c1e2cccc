"""The table of docs/security.md is what was measured, and what was measured is still so."""

import json
from collections.abc import Iterator

import pytest

from tests.attacks import levels
from tests.attacks.arena import FAMILIES, Arena, outcome

FOUND = json.loads(levels.FOUND.read_text())
QUICK = ("reads", "network", "poison")


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


@pytest.mark.parametrize("without", [level for level in levels.LEVELS if level])
def test_what_was_measured_is_still_so(arena: Arena, without: str):
    for family, name in levels.tried(without):
        if family in QUICK:
            wrong = outcome(arena, FAMILIES[family][name], without)
            assert bool(wrong) == (f"{family}: {name}" in FOUND[without]), (family, name, wrong)
