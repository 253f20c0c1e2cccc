"""The table of docs/security.md shows the measured results, and a sample of attacks still gives them."""

import json

import pytest

from tests.attacks import levels
from tests.attacks.arena import FAMILIES, Arena, outcome

RESULTS = json.loads(levels.RESULTS.read_text())
SAMPLE = 24  # every 24th attack runs again, and all that got through


def test_the_table_is_up_to_date():
    assert levels.table(RESULTS) in levels.PAGE.read_text()


def test_every_result_belongs_to_an_attack():
    for without, results in RESULTS.items():
        assert set(results) <= {": ".join(attack) for attack in levels.attacks_at(without)}


def test_no_attack_gets_through_strict_isolation():
    assert RESULTS[""] == {}


@pytest.mark.thorough
@pytest.mark.parametrize("without", levels.PARTIAL)
def test_a_sample_of_attacks_gives_the_same_results(arena: Arena, without: str):
    attacks = levels.attacks_at(without)
    through = [attack for attack in attacks if ": ".join(attack) in RESULTS[without]]
    for family, name in {*through, *attacks[::SAMPLE]}:
        wrong = outcome(arena, FAMILIES[family][name], without)
        assert bool(wrong) == ((family, name) in through), (family, name, wrong)
