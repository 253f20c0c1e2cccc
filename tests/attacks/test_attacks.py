"""Every attack ends with an honest verdict, in bounded time, and changes neither anything outside nor the next
submission."""

import time

import pytest

from tests.attacks.arena import FAMILIES, Arena, outcome

LEAVES_THINGS_BEHIND = ("poison",)
ATTACKS = [(family, name) for family, attacks in FAMILIES.items() for name in attacks]


def test_there_are_enough_attacks():
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize(("family", "name"), ATTACKS)
def test_an_attack_is_stopped(arena: Arena, family: str, name: str):
    attack = FAMILIES[family][name]
    start = time.monotonic()
    assert outcome(arena, attack) == []
    assert time.monotonic() - start < attack.timeout + 20
    if family in LEAVES_THINGS_BEHIND:
        assert arena.passes(), "the next submission"
