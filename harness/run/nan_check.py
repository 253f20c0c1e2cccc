"""`debug_nans`: stops at the first step whose loss or gradients are not finite, and finds the operation that gives
NaN."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental import checkify

import harness
from harness.errors import HarnessError
from harness.training.optimizer import skipped_updates
from harness.training.train_step import State, StepFunctions, StepMetrics

TrainStep = Callable[[State, Any], tuple[State, StepMetrics]]


def stop_at_nan(functions: StepFunctions, workspace: Path | None) -> TrainStep:
    """A train step that raises HarnessError if its loss or its gradients are not finite.

    It runs such a step again from a copy of the state, with a check of each operation (`jax.experimental.checkify`).
    The error names the innermost line of the harness or of the workspace. Needs memory for a second state, and waits
    for each step.
    """
    folders = [Path(harness.__file__).parent, *([workspace.absolute()] if workspace else [])]
    checked = checkify.checkify(functions.train_step, errors=checkify.nan_checks)

    def train_step(state: State, batch: Any) -> tuple[State, StepMetrics]:
        before = jax.tree.map(jnp.copy, state)
        optimizer = nnx.merge(functions.graph, before)[1]
        step, skipped = int(optimizer.step[...]) + 1, int(skipped_updates(optimizer.opt_state))
        state, metrics = functions.train_step(state, batch)
        loss = float(metrics.loss)
        if math.isfinite(loss) and int(metrics.skipped) == skipped:
            return state, metrics
        wrong = "its gradients are not finite" if math.isfinite(loss) else f"its loss is {loss}"
        error, _ = checked(before, batch)
        raise HarnessError(f"Step {step} is the first that fails: {wrong}. {_origin(error, folders)}")

    return train_step


def _origin(error: checkify.Error, folders: list[Path]) -> str:
    """A sentence on the operation that gives NaN."""
    found: Any = error.get_exception()
    if found is None:
        return "No operation gives NaN, so some number grew too large. Lower learning_rate, or increase warmup_steps."
    for frame in found.traceback_info.frames:  # the innermost first
        file = Path(frame.file_name)
        for folder in folders:
            if file.is_relative_to(folder) and file != Path(__file__):
                place = file.relative_to(folder.parent if folder == folders[0] else folder)
                return (
                    f"The first NaN is the result of {found.prim} in {place}, line {frame.line_num} "
                    f"({frame.function_name})."
                )
    return f"The first NaN is the result of {found.prim}."
