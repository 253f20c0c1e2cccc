"""Every attack ends with an honest verdict, in bounded time, and changes neither anything outside nor the next
submission."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.arena import FAMILIES, Arena, outcome

LEAVES_THINGS_BEHIND = ("poison",)
ATTACKS = [(family, name) for family, attacks in FAMILIES.items() for name in attacks]
EACH_TIME = 3  # one of so many attacks runs each time; the others are thorough, since each starts a judge of its own


def in_turn() -> Iterator[Any]:
    for place, attack in enumerate(ATTACKS):
        yield pytest.param(*attack, marks=[] if place % EACH_TIME == 0 else [pytest.mark.thorough])


def test_there_are_enough_attacks():
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize(("family", "name"), [*in_turn()])
def test_an_attack_is_stopped(arena: Arena, family: str, name: str):
    attack = FAMILIES[family][name]
    start = time.monotonic()
    assert outcome(arena, attack) == []
    assert time.monotonic() - start < attack.timeout + 20
    if family in LEAVES_THINGS_BEHIND:
        assert arena.passes(), "the next submission"
