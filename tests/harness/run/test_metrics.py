"""What the lines of metrics say of the steps so far, also of those before a run was resumed."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import pytest

from harness.config import Config
from harness.run.folder import Run
from harness.run.metrics import Metrics, PendingStep
from harness.run.run_session import ignore, open_session
from harness.training.train_step import StepMetrics
from tests.harness.conftest import TINY


def resumed(folder: Path, config: Config, losses: Sequence[float | None], skipped: int = 0) -> Metrics:
    """The metrics of a run that is resumed after steps with these validation losses."""
    run = Run(folder)
    run.create_or_check(config)
    lines = [
        {
            "step": step,
            "loss": 2.0,
            "tokens": 128 * step,
            "tokens_per_s": 50.0,
            "skipped": skipped,
            "validation_loss": loss,
        }
        for step, loss in enumerate(losses, 1)
    ]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Metrics(open_session(run, config, None, log=ignore, quiet=True), len(lines), ignore)


def step(number: int, skipped: int) -> PendingStep:
    loss, rate, norm = (jnp.float32(value) for value in (2.0, 1e-3, 1.0))
    return PendingStep(number, 128, StepMetrics(loss, rate, norm, jnp.int32(skipped), {}), {})


def test_updates_that_were_skipped_before_a_resume_are_not_skipped_again(tmp_path: Path) -> None:
    metrics = resumed(tmp_path / "r", replace(TINY, num_layers=1), [None, None], skipped=2)
    metrics.record(step(3, skipped=2))
    assert metrics.skipped_in_a_row == 0
    metrics.record(step(4, skipped=3))
    metrics.record(step(5, skipped=4))
    assert metrics.skipped_in_a_row == 2
    assert [line["tokens"] for line in metrics.lines] == [128, 256, 384, 512, 640]
    metrics.close()


@pytest.mark.parametrize(
    ("losses", "is_out"),
    [
        ([2.0, 2.0, 2.0], True),  # a loss that stays the same is no new best one
        ([2.0, 2.1, 2.2], True),
        ([2.0, 2.1, 1.9], False),
        ([2.0, 1.9, 2.1], False),
        ([2.0, None, 2.1, None, 2.2], True),
        ([2.0, math.nan, 2.1], False),
        ([2.0, 2.0], False),
    ],
)
def test_patience_runs_out_when_no_loss_is_a_new_best_one(
    tmp_path: Path, losses: list[float | None], is_out: bool
) -> None:
    metrics = resumed(tmp_path / "r", replace(TINY, num_layers=1, patience=2), losses)
    assert metrics.is_out_of_patience() is is_out
    metrics.close()
