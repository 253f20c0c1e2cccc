"""Problem 78: its reference agrees with closed forms, its page with its definition, and its play shows what follows."""

import sys
from math import comb

import numpy as np
import pytest

from grader.cost.roofline import machines
from problems.p78_roofline.problem import H100, LLAMA_8B, QUESTIONS, QWEN_30B, RATES
from tests.conftest import ROOT
from tests.problems.test_plays import shown


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.mark.fast
def test_the_machine_of_the_page_is_that_of_the_cost_command():
    (machine,) = (each for each in machines() if each.name == "H100")
    assert (machine.rate, machine.bandwidth) == (H100["flops"], H100["bandwidth"])


@pytest.mark.fast
def test_the_page_asks_the_twelve_questions_that_are_graded():
    page = " ".join((ROOT / "problems" / "p78_roofline" / "page.md").read_text().split())
    assert len(QUESTIONS) == 12
    for number, question in enumerate(QUESTIONS, 1):
        assert f"{number}. {question}" in page


@pytest.mark.fast
def test_no_decision_is_near_the_border():
    from p78_roofline import decode_rate

    for choices in RATES.values():
        low, high = sorted(decode_rate(*arguments) for arguments in choices.values())
        assert high > 1.2 * low


@pytest.mark.fast
@pytest.mark.parametrize(("batch", "context"), [(1, 1), (1, 100_000), (60, 1024)])
def test_a_rate_below_the_ridge_is_bandwidth_over_bytes(batch: int, context: int):
    """All of Llama 3.1 8B with a tied head has 7.5 billion weights, and a token of its cache 128 KiB."""
    from p78_roofline import decode_rate

    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336) + 128_256 * 4096
    assert 7.5e9 < weights < 7.51e9
    expected = batch * 3.35e12 / (2 * weights + batch * context * 131_072)
    assert decode_rate(LLAMA_8B, batch, context, H100) == pytest.approx(expected)


@pytest.mark.fast
def test_the_experts_that_are_read_are_the_mean_over_random_choices():
    """The closed form counts draws of k of E experts for each token; drawn here one by one."""
    from p78_roofline import decode_rate

    E, k, B = QWEN_30B["experts"], QWEN_30B["active"], 12
    rng = np.random.default_rng(0)
    read = np.mean([len(set(np.concatenate([rng.permutation(E)[:k] for _ in range(B)]))) for _ in range(400)])
    assert comb(E - 1, k) / comb(E, k) == pytest.approx(1 - k / E)
    layer = 2 * 2048 * 128 * 36 + read * 3 * 2048 * 768
    moved = 2 * (48 * layer + 151_936 * 2048) + B * 1024 * 2 * 48 * 4 * 128 * 2
    assert decode_rate(QWEN_30B, B, 1024, H100) == pytest.approx(B * 3.35e12 / moved, rel=5e-3)


@pytest.mark.fast
def test_collectives_send_what_a_ring_sends_turn_by_turn():
    from p78_roofline import seconds

    numbers, devices = 24, 6
    part, gathered, reduced = numbers / devices, 0.0, 0.0
    for _ in range(devices - 1):
        gathered += part
        reduced += part
    device = {**H100, "link": 2.0, "node": 6}
    for op, sent in (("all_gather", gathered), ("reduce_scatter", reduced), ("all_reduce", gathered + reduced)):
        assert seconds(op, (numbers, devices), 8, device) == (pytest.approx(sent / 2.0), "sending")


@pytest.mark.fast
def test_a_step_on_one_device_is_its_arithmetic():
    from p78_roofline import best_mesh, step_seconds

    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336) + 128_256 * 4096
    operations = 6 * weights * 2 * 512 + 12 * 32 * 4096 * 512 * 2 * 512
    assert step_seconds(LLAMA_8B, 2, 512, H100, (1, 1)) == pytest.approx(operations / 989e12)
    assert best_mesh(LLAMA_8B, 2, 512, H100, 1) == (1, 1)


@pytest.mark.thorough
def test_the_play_shows_a_roof_and_a_best_mesh(fork_server):
    roof, rates, meshes, here = shown("78", fork_server)
    assert all(max(line.y) == pytest.approx(989) for line in roof.lines)
    assert roof.lines[1].y[0] == pytest.approx(4 * roof.lines[0].y[0], rel=1e-2)
    assert "the roof is flat" in roof.caption
    assert len(rates.lines[0].x) > len(rates.lines[1].x)
    assert "reads less and is faster" in rates.caption
    assert [bar.value for bar in meshes.bars].index(min(bar.value for bar in meshes.bars)) == 2
    assert "Your best mesh is 16 x 4. With few tokens" in meshes.caption
    assert len(here.bars) == 4
    assert here.timed


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ("2 * M * C * N,", "M * C * N,", 0, "should be at 989"),
        ("used = E * (1 - (1 - k / E) ** batch)", "used = k", 1, "should begin above"),
        ("return min(possible,", "return max(possible,", 2, "Both should be 16 x 4"),
    ],
)
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("78", fork_server, find, replace)[exhibit].caption
