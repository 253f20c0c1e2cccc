"""The learning-rate range test."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.pieces.load import Pieces
from harness.run import find_lr
from harness.run.charts import range_test as chart
from harness.run.find_lr import RangeTest, range_test
from harness.run.folder import Run
from harness.run.run_session import ignore, open_session
from harness.training.train_step import StepFunctions, StepMetrics
from tests.harness.conftest import Harness


def run_test(config: Config, folder: Path, pieces: Pieces | None = None, steps: int = 120) -> RangeTest:
    session = open_session(Run(folder / "runs" / "r"), config, pieces, log=ignore, quiet=True)
    return range_test(session, steps, quiet=True)


@pytest.mark.thorough
def test_the_rate_grows_until_the_loss_diverges(tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, num_layers=1, norm="none", learning_rate=3e-4, warmup_steps=5)  # a norm would limit the loss
    test = run_test(config, tmp_path)
    assert not (tmp_path / "runs").exists()
    np.testing.assert_allclose(test.rates[1:] / test.rates[:-1], 1e6 ** (1 / 119))
    assert test.rates[0] == 1e-6
    assert test.diverged
    assert len(test.losses) == len(test.smoothed) == len(test.rates) < 120
    assert 1e-4 < test.suggested < test.rates[-1] < 1
    # At rates near zero the model stays as it is, so the loss changes only with the batch.
    assert np.ptp(test.losses[:5]) < 0.05
    np.testing.assert_array_equal(test.losses, run_test(config, tmp_path).losses)  # no randomness beyond the seed
    assert f"steepest descent, {test.suggested:.1e}" in chart(test.rates, test.losses, test.smoothed, test.suggested)


def test_a_loss_that_is_not_finite_ends_the_test(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = find_lr.make_step_functions

    def breaking(*arguments: Any) -> StepFunctions:
        functions, numbers = make(*arguments), itertools.count(1)

        def train_step(state: Any, batch: Any) -> tuple[Any, StepMetrics]:
            state, metrics = functions.train_step(state, batch)
            return state, metrics if next(numbers) < 4 else metrics._replace(loss=jnp.float32(jnp.nan))

        return replace(functions, train_step=train_step)

    monkeypatch.setattr(find_lr, "make_step_functions", breaking)
    test = run_test(replace(tiny, num_layers=1), tmp_path, steps=20)
    assert test.diverged
    assert np.isfinite(test.losses).tolist() == [True, True, True, False]


def test_the_steepest_descent_is_suggested() -> None:
    rates = np.geomspace(1e-6, 1, 61)
    smoothed = 5 - 2 / (1 + np.exp(-4 * np.log10(rates / 1e-3)))  # falls fastest at 1e-3
    test = RangeTest(rates, smoothed, smoothed, diverged=False)
    assert test.suggested == rates[30]
    assert len(test.table(12).splitlines()) == 13


@pytest.mark.thorough
def test_pieces_are_tested_without_their_schedule(pieces: Pieces, tiny: Config, tmp_path: Path) -> None:
    pieces = replace(pieces, by_name={name: pieces.by_name[name] for name in ("warmup_cosine", "adamw")})
    own = run_test(replace(tiny, num_layers=1), tmp_path, steps=20)
    with_pieces = run_test(replace(tiny, num_layers=1), tmp_path, pieces, steps=20)
    # The piece computes the same updates in another order.
    np.testing.assert_allclose(with_pieces.losses[:15], own.losses[:15], rtol=1e-3)


@pytest.mark.thorough
def test_the_command_suggests_a_rate_and_draws(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    small = [f"--set={setting}" for setting in ("context=8", "d_model=8", "num_heads=2", "d_ff=8", "num_layers=1")]
    done = harness("find-lr", "--data", stories_file, "--steps", 30, "--quiet", *small)
    assert done.code == 0, done.err
    assert "--set learning_rate=" in done.out
    assert "steepest descent" in (tmp_path / "find-lr.svg").read_text()
    assert not (tmp_path / "runs").exists()
