"""`mtp=1`: a module that predicts the token after the next, its loss, and what becomes of it in other commands."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.data.batches import FIRST, PADDING
from harness.training.train_step import default_loss_sum
from tests.harness.conftest import Harness
from tests.harness.model.test_gpt import IDS, SMALL, filled

CONFIG = replace(SMALL, mtp=1, mtp_weight=0.5)


def both_losses(config: Config, model: Any, rows: Any) -> dict[str, float]:
    """The sums of the losses of the next token and of the one after it."""
    _, _, sums = default_loss_sum(config, None, model, jnp.asarray(rows), None)
    return {name: float(value) for name, value in sums.items()}


def test_a_position_reads_the_next_token_and_none_after_it() -> None:
    model = filled(CONFIG)
    run = jax.jit(lambda ids_BT: model.ahead(model.hidden(ids_BT[:, :-1]), ids_BT[:, 1:]))
    before, after = run(IDS), run(IDS.at[:, 7].add(1) % 97)
    np.testing.assert_allclose(after[:, :6], before[:, :6], atol=1e-5)
    assert np.all(np.abs(after[:, 6] - before[:, 6]).max(axis=-1) > 1e-3)


def test_the_loss_is_that_of_both_tokens_with_a_weight() -> None:
    model, (B, T) = filled(CONFIG), IDS.shape
    total, count, sums = default_loss_sum(CONFIG, None, model, IDS, None)
    logs = jax.nn.log_softmax(model.logits(model.ahead(model.hidden(IDS[:, :-1]), IDS[:, 1:])))
    expected = -sum(float(logs[b, t, IDS[b, t + 2]]) for b in range(B) for t in range(T - 2))
    assert int(count) == B * (T - 1)
    assert float(sums["mtp_loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(total) == pytest.approx(float(sums["next_token_loss"]) + 0.5 * expected, rel=1e-5)
    alone, _ = default_loss_sum(replace(CONFIG, mtp=0), None, model, IDS, None)
    assert float(alone) == pytest.approx(float(sums["next_token_loss"]), rel=1e-6)


def test_no_token_after_the_next_is_one_of_another_story_or_padding() -> None:
    """Two stories of one row have the losses that they have in rows of their own."""
    config = replace(CONFIG, packing="segments")
    one, other = np.arange(3, 8), np.arange(20, 24)
    rows = np.full((3, 13), PADDING)
    for row, story in ((0, one), (1, other)):
        rows[row, : len(story)] = [FIRST - story[0], *story[1:]]
    rows[2, :9] = [*rows[0, :5], *rows[1, :4]]
    model = filled(config)
    apart, together = both_losses(config, model, rows[:2]), both_losses(config, model, rows[2:])
    assert together == pytest.approx(apart, rel=1e-4)


@pytest.mark.parametrize(
    "more", [{"mixer": "gated_delta", "attention_every": 2, "positions": "none"}, {"window": 4, "full_every": 2}]
)
def test_its_block_attends_to_all_positions(more: dict[str, Any]) -> None:
    model = filled(replace(CONFIG, num_layers=2, num_kv_heads=1, qk_norm="head", norm_kind="rmsnorm", **more))
    run = jax.jit(lambda x_BTD: model.mtp(x_BTD, x_BTD))
    x_BTD = jax.random.normal(jax.random.key(0), (1, 9, CONFIG.d_model))
    change = np.abs(run(x_BTD.at[0, 0].add(1.0)) - run(x_BTD)).max(axis=(0, 2))
    assert np.all(change > 1e-6)


def test_a_run_is_trained_resumed_sampled_and_exported_without_the_module(
    stories_file: Path, harness_here: Harness, tmp_path: Path
) -> None:
    sizes = "d_model=16 num_heads=2 d_ff=24 num_layers=1 context=16 batch_size=8 eval_batches=1 mesh=1x1".split()
    settings = [part for setting in (*sizes, "mtp=1") for part in ("--set", setting)]
    trained = harness_here("train", "--data", stories_file, "--run", "two", "--steps", 2, *settings, "--quiet")
    assert trained.code == 0, trained.err
    metrics = Path("runs/two/metrics.jsonl").read_text()
    assert '"mtp_loss"' in metrics
    assert harness_here("sample", "two", "--max-tokens", 3).code == 0
    said = harness_here("export", "two", "--to", tmp_path / "out")
    assert said.code == 0, said.err
    assert "without the module of mtp=1" in said.out
    assert harness_here("sample", f"hf:{tmp_path / 'out'}", "--max-tokens", 3).code == 0


def test_gradients_reach_the_module_and_the_model_below() -> None:
    model = filled(replace(CONFIG, mtp_weight=1.0))
    graph, state = nnx.split(model)

    def loss(state: Any) -> Any:
        return default_loss_sum(CONFIG, None, nnx.merge(graph, state), IDS, None)[2]["mtp_loss"]

    zero = [path for path, leaf in jax.tree_util.tree_leaves_with_path(jax.grad(loss)(state)) if not np.any(leaf)]
    assert [jax.tree_util.keystr(path) for path in zero] == []
