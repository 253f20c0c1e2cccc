"""Every attack ends in the honest verdict, in bounded time, with nothing outside changed and the next submission unaffected."""

import time
from collections.abc import Iterator

import pytest

from tests.attacks.arena import FAMILIES, Arena, outcome

LEAVES_THINGS = ("poison",)
ALL = [(family, name) for family, attacks in FAMILIES.items() for name in attacks]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("arena"))
    yield made
    made.close()


def test_there_are_enough_attacks():
    assert len(ALL) >= 60


@pytest.mark.parametrize(("family", "name"), ALL)
def test_an_attack_is_stopped(arena: Arena, family: str, name: str):
    attack = FAMILIES[family][name]
    begun = time.monotonic()
    assert outcome(arena, attack) == []
    assert time.monotonic() - begun < attack.timeout + 20
    if family in LEAVES_THINGS:
        assert arena.passes(), "the next submission"
