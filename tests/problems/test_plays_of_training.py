"""What the plays of problems 08 to 16, 30, 31 and 37 to 42 show of the references, and of wrong ideas."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from grader.exhibits import Exhibit, Lines
from problems.stage import modern, telling, weights
from problems.stage.weights import MODERN
from tests.problems.test_plays import Shown, bits, no_sense, shown

pytestmark = pytest.mark.thorough  # minutes of compiling; `grade verify` plays each reference, too


def apart(exhibit: Exhibit) -> float:
    """The largest distance of the first two curves, which stand beside each other."""
    assert isinstance(exhibit, Lines)
    one, other = (np.array(line.y) for line in exhibit.lines[:2])
    return float(np.abs(one - other).max())


@pytest.mark.parametrize("word", ["08", "09", "12"])
def test_curves_of_the_reference_lie_on_those_of_optax(fork_server, word):
    curves = shown(word, fork_server)[0]
    assert apart(curves) < 0.01
    assert curves.lines[0].y[-1] < curves.lines[0].y[0] - 1


def test_memory_falls_with_the_number_of_parts(fork_server):
    _, texts, memory = shown("12", fork_server)
    assert texts.rows[0][1] == texts.rows[1][1]
    values = [bar.value for bar in memory.bars]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] / 4


def test_a_schedule_ends_at_a_tenth_and_training_ends_lower(fork_server):
    rates, losses, texts = shown("10", fork_server)
    assert [len(row[1]) for row in texts.rows] == [48] * 3
    cosine, stable, harness = (np.array(line.y) for line in rates.lines)
    assert np.abs(cosine - harness).max() < 1e-5
    assert (stable[30:241] == stable.max()).all()
    assert math.isclose(rates.lines[0].y[-1], max(rates.lines[0].y) / 10, rel_tol=0.02)
    *with_schedules, constant = losses.lines
    assert len(with_schedules) == 2
    assert all(line.y[-1] < constant.y[-1] - 0.05 for line in with_schedules)


def test_clipping_and_the_guard_save_a_run(fork_server):
    clipped, bare = shown("11", fork_server)[0].lines
    assert max(clipped.y[12:]) < 4 < max(bare.y[12:])
    curves, texts, skipped = shown("13", fork_server)
    assert [len(row[1]) for row in texts.rows] == [48, 4]
    guarded, bare = curves.lines
    assert np.isfinite(guarded.y).all()
    assert math.isnan(bare.y[-1])
    assert [row[1:] for row in skipped.rows] == [("1", "1"), ("['block']['kernel']",) * 2]


def test_the_smallest_model_learns_to_repeat(fork_server):
    losses, answers = shown("14", fork_server)
    assert losses.lines[0].y[-1] < 0.05
    before, after = (np.array(plane.values) for plane in answers.planes)
    assert np.allclose(after.sum(1), 1, atol=1e-4)
    assert np.diag(after).min() > 0.9 > np.diag(before).max()


def test_tokens_windows_and_batches_hold_everything_once(fork_server):
    text, windows = shown("15", fork_server)
    assert text.text.count("<|endoftext|>") == 2
    assert "every token is there once" in windows.caption
    assert "".join(row[1].replace("│", "") for row in windows.rows).startswith(text.text)
    order, shards = shown("16", fork_server)
    assert all(straight == resumed for _, straight, resumed in order.rows)
    stories = [story for _, straight, _ in order.rows[:4] for story in straight.split()]
    assert sorted(stories, key=int) == [str(number) for number in range(12)]
    assert np.sum(shards.planes[0].values, axis=0).tolist() == [1] * 12


def test_a_cache_tells_the_same_story(fork_server):
    _, story = shown("30", fork_server)
    assert "The same words" in story.caption


def test_adapters_begin_as_nothing_and_learn_of_robots(fork_server):
    before, curve, after, sizes = shown("31", fork_server)
    assert "this is its old story" in before.caption
    losses = curve.lines[0].y
    assert losses[-1] < losses[0] / 1.5
    assert "have changed" not in curve.caption
    assert "robot" in after.text
    assert sizes.bars[0].value < sizes.bars[1].value / 10


def test_rotations_are_relative_and_the_modern_parts_tell_the_modern_story(fork_server):
    openings = ("Once there was a brave", "There once was a silly", "Once there was a proud")
    told = [opening + telling.text(telling.tell(modern.modern(), 90, prompt=opening)) for opening in openings]
    scores, by_rope = shown("37", fork_server)
    assert apart(scores) < 1e-3
    sizes, _, by_parts = shown("38", fork_server)
    assert all(math.isclose(bar.other, 1, rel_tol=1e-3) for bar in sizes.bars)
    caches, by_attention = shown("39", fork_server)
    four, two, one = (line.y[-1] for line in caches.lines)
    assert (four, two) == (pytest.approx(4 * one, rel=0.01), pytest.approx(2 * one, rel=0.01))
    assert [by_rope.text, by_parts.text, by_attention.text] == told


def test_the_modern_model_is_the_harnesss(fork_server):
    story, bars = shown("40", fork_server)
    assert story.text.endswith("⟨end⟩")
    assert math.isclose(bars.bars[0].value, bars.bars[0].other, rel_tol=1e-3)
    assert "0.466 bits, where the model of problem 06 has 0.501" in bars.caption
    assert weights.validation_loss(modern.modern()) == pytest.approx(MODERN.validation_loss, abs=1e-3)


def test_loaded_weights_tell_a_story(fork_server):
    _, before, after = shown("41", fork_server)
    assert bits(before) > 5
    assert "found its place" in after.caption


def test_merges_shorten_stories(fork_server):
    merges, few, many, lengths = shown("42", fork_server)
    assert "␣the" in merges.rows[1][1]
    assert few.text == many.text
    assert len(few.tokens) > len(many.tokens)
    assert list(lengths.lines[0].y) == sorted(lengths.lines[0].y, reverse=True)


# Wrong files: the edit to a reference, and what the play must show of it.
CONSEQUENCES: dict[str, tuple[str, str, str, Callable[[Shown], bool]]] = {
    "jit that forgets": ("08", "@nnx.jit", "@jax.jit", lambda shown: "does not fall" in shown[0].caption),
    "no bias correction": (
        "09", "m, s = m / (1 - b1**count), s / (1 - b2**count)", "pass",
        lambda shown: apart(shown[0]) > 0.1 and "away from optax's" in shown[0].caption,
    ),
    "mean of means": (
        "12", "gradient = jax.value_and_grad(loss_sum, has_aux=True)",
        "gradient = jax.value_and_grad(lambda p, ids: (loss_sum(p, ids)[0] / loss_sum(p, ids)[1], 1), has_aux=True)",
        lambda shown: apart(shown[0]) > 0.02 and "mean of means" in shown[0].caption,
    ),
    "a copy trained": (
        "14", "optimizer = nnx.Optimizer(", "model = nnx.clone(model); optimizer = nnx.Optimizer(",
        lambda shown: "not the one" in shown[1].caption and "cannot learn anything" in shown[0].caption,
    ),
    "diverges": ("14", "optax.adam(0.03)", "optax.sgd(60.0)", lambda shown: "diverges" in shown[0].caption),
    "no shards": ("16", "[shard::num_shards]", "", lambda shown: "Not once each" in shown[1].caption),
    "zero gradients counted": (
        "13", "state.skipped + jnp.where(finite, 0, 1)", "state.skipped", lambda shown: "not what "
            "happened" in shown[1].caption,
    ),
    "not clipped": ("11", "leaf * factor", "leaf", lambda shown: "jumps" in shown[0].caption),
    "state of a skipped step kept": (
        "13", "jax.lax.cond(finite, take, skip)", "take()", lambda shown: "ends, too" in shown[0].caption,
    ),
    "remainder lost": (
        "15", "missing = -len(token_ids) % context", "missing, token_ids = 0, token_ids[: len(token_ids) // context * "
            "context]",
        lambda shown: "not where they were" in shown[1].caption,
    ),
    "cache position off by one": (
        "30", '{"position": position + 1,', '{"position": position + 2,', lambda shown: "another "
            "one" in shown[1].caption,
    ),
    "B not zero": (
        "31", "jnp.zeros((rank, d_out))", "jax.random.normal(rngs.params(), (rank, d_out))",
        lambda shown: "Not its old story" in shown[0].caption,
    ),
    "positions from the end": (
        "37", "(positions[:, None] * frequencies_P)", "((positions[:, None] % 100) ** 2 * frequencies_P)",
        lambda shown: no_sense(shown[1]),
    ),
    "no gate": (
        "38", "jax.nn.silu(self.gate_proj(x)) * self.up_proj(x)", "jax.nn.silu(self.up_proj(x))",
        lambda shown: no_sense(shown[2]),
    ),
    "heads in the wrong groups": (
        "39", "jnp.repeat(v_SGK, self.H // self.G, axis=1)", "jnp.tile(v_SGK, (1, self.H // self.G, 1))",
        lambda shown: no_sense(shown[1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("idea", CONSEQUENCES)
def test_a_wrong_idea_has_a_consequence_that_is_seen(fork_server, idea):
    word, find, replace, is_seen = CONSEQUENCES[idea]
    assert is_seen(shown(word, fork_server, find, replace))
