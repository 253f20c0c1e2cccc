"""The pieces of problem 69: a run whose train step is the learner's, with moments split over eight devices."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.errors import PieceError, UsageError
from harness.pieces.assemble import recipe_from
from harness.pieces.load import Pieces, check_pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from harness.training.sharding import by_dotted_name, make_mesh, put_batch
from harness.training.train_step import make_step_functions
from tests.harness.conftest import TINY
from tests.harness.pieces.shared import only

# Rotary positions, so that a model whose context has one more position has the same parameters.
CONFIG = replace(
    TINY,
    vocab_size=61,
    positions="rope",
    num_layers=1,
    mesh="8x1",
    zero1=True,
    weight_decay=0.0,
    beta2=0.999,
    clip_norm=0.5,
)


@pytest.fixture
def zero(_all_pieces: Pieces) -> Pieces:
    """Both pieces, of the reference."""
    return only(_all_pieces, "zero_step", "zero_state")


def batches(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 61, (8, CONFIG.context + 1)).astype(np.int32) for _ in range(count)]
    rows[1][2, 3:] = -1  # devices have different numbers of targets
    rows[1][5] = -1
    return rows


def steps(
    config: Config, pieces: Pieces | None, poisoned: bool = False
) -> tuple[list[tuple[float, ...]], dict[str, jax.Array]]:
    """The loss, the norm, the rate and the skipped updates of some steps, and the state after them."""
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, pieces and recipe_from(config, mesh, pieces))
    state, lines = functions.init(), []
    for number, rows in enumerate(batches(4)):
        if poisoned and number == 2:
            state[0]["embed"][...] *= jnp.nan
        state, metrics = functions.train_step(state, put_batch(rows, mesh))
        lines.append(
            (float(metrics.loss), float(metrics.gradient_norm), float(metrics.learning_rate), int(metrics.skipped))
        )
    return lines, by_dotted_name(state)


@pytest.mark.thorough
def test_a_run_has_the_losses_of_the_harness(zero: Pieces) -> None:
    own, _ = steps(CONFIG, None)
    with_pieces, state = steps(CONFIG, zero)
    np.testing.assert_allclose(own, with_pieces, rtol=1e-4)
    moments = {name: leaf for name, leaf in state.items() if name.endswith((".m", ".v"))}
    assert len(moments) == 2
    for leaf in moments.values():
        assert {shard.data.size for shard in leaf.addressable_shards} == {leaf.size // 8}


def test_an_update_that_is_not_finite_is_skipped(zero: Pieces) -> None:
    lines, state = steps(CONFIG, zero, poisoned=True)
    assert [skipped for *_, skipped in lines] == [0, 0, 1, 2]
    assert all(np.isfinite(leaf).all() for name, leaf in state.items() if name.endswith((".m", ".v")))


@pytest.mark.parametrize(
    "settings", [{"zero1": False}, {"weight_decay": 0.1}, {"beta2": 0.95}, {"mesh": "4x2"},
    {"grad_accumulation_steps": 2},
                 {"optimizer": "muon"}, {"clip_norm": 0.0}]
)  # fmt: skip
def test_other_steps_are_those_of_the_harness(zero: Pieces, settings: dict[str, object]) -> None:
    assert zero.uses("zero_step", CONFIG)
    assert not zero.uses("zero_step", replace(CONFIG, **settings))


def test_a_run_resumes_exactly(zero: Pieces, tiny: Config, tmp_path: Path) -> None:
    adam = {"zero1": True, "weight_decay": 0.0, "beta2": 0.999}
    config, run, lines = replace(tiny, num_layers=1, mesh="8x1", **adam), Run(tmp_path / "runs" / "a"), []
    for number in range(2):
        assert train(open_session(run, config, zero, log=ignore, quiet=True), log=ignore, quiet=True)
        lines.append([(line["loss"], line["gradient_norm"], line["validation_loss"]) for line in run.metrics()])
        run.checkpoints.joinpath("6").rename(tmp_path / f"away{number}")
    assert lines[0] == lines[1]
    with pytest.raises(UsageError, match=r"pieces: zero_step \w+ over 8 devices -> zero_step \w+\n"):
        train(open_session(run, replace(config, zero1=False), zero, log=ignore, quiet=True), log=ignore, quiet=True)


def test_a_step_that_changes_nothing_is_reported(tmp_path: Path) -> None:
    def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):  # type: ignore[no-untyped-def]
        loss, targets = loss_sum(parameters, token_ids)
        return parameters, state, loss / targets, jnp.float32(1)

    with pytest.raises(PieceError, match=r"zero_step of p69_zero_optimizer\.py did not change any parameter"):
        check_pieces({"zero_step": zero_step, "zero_state": lambda parameters, mesh: {}}, tmp_path)


def test_a_state_of_another_kind_is_reported(tmp_path: Path) -> None:
    def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):  # type: ignore[no-untyped-def]
        loss, targets = loss_sum(parameters, token_ids)
        changed = {name: leaf + 1 for name, leaf in parameters.items()}
        return changed, {"m": state["m"]}, loss / targets, jnp.float32(1)

    def zero_state(parameters, mesh):  # type: ignore[no-untyped-def]
        return {"count": jnp.int32(0), "m": jnp.zeros(9)}

    with pytest.raises(PieceError, match="returned state of another structure, shape or dtype than it was given"):
        check_pieces({"zero_step": zero_step, "zero_state": zero_state}, tmp_path)
