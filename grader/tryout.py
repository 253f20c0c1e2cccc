"""Runs a check's own probe in the learner's process, for the scripts of `grade try` and the sessions of `grade repl`.

Unlike the grader, it runs the code unconfined, without jit, and where a debugger can step through it.
"""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np

from grader.course import catalog, selection
from grader.judge.counterexample import Counterexample, compared
from grader.judge.worker_session import Mode, in_stages, measured, outcome_of
from grader.problem import Case, Problem
from grader.problem import Check as ProblemCheck
from grader.report import full_arrays
from grader.wire.compare import Leaf, on_page, select, values

CASE, EXPECTED = "case.", "expected."


def start(devices: int) -> None:
    """Sets up `devices` CPU devices. Call it before any other code uses JAX."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # as in the grader
    import jax

    if devices > 1:
        jax.config.update("jax_num_cpu_devices", devices)  # type: ignore[no-untyped-call]


def fill(module: Any, seed: int) -> None:
    """Sets a module's parameters to the values with which it is graded. They depend on the names of the parameters."""
    from grader.worker.pytrees import fill_module

    fill_module(module, seed)


def output(returned: Any, *names: str) -> dict[str, Any]:
    """Returns the arrays that an entry returned, by path. `names` are those of the parts of a tuple."""
    from grader.worker.pytrees import named
    from grader.worker.subject import parts

    return named(parts(returned, names, "the entry"), "output")


@dataclass(frozen=True)
class Check:
    """A check of a problem, by name."""

    problem: Problem
    check: ProblemCheck

    def run(self, submission: ModuleType, case: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Runs the check's probe on a submission and returns the arrays by name. Raises whatever the submission raises,
        with its traceback."""
        from grader.worker.main import Sources, WorkerState, prepare
        from grader.worker.subject import Subject

        state = WorkerState(prepare(self.problem.folder), Sources(), lambda step, steps, loss: None)
        state.subjects[""] = Subject(self.problem, vars(submission))
        measures = measured(self.problem, self.check)
        values = {key: np.asarray(value) if hasattr(value, "dtype") else value for key, value in case.items()}
        mode: Mode = "both" if measures or self.check.traced else "eager"
        # Probes make folders in the current one, which is a worker's own.
        with tempfile.TemporaryDirectory(prefix="grade-") as scratch, contextlib.chdir(scratch):
            outcome = in_stages(
                self.check,
                Case(values, seed=seed),
                mode,
                measures,
                lambda stage, frame: outcome_of(state.answer(frame)),
            )
        return {leaf.path: leaf.values for leaf in outcome.leaves}

    def show(self, expected: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        """Prints the returned beside the expected arrays, leaf by leaf."""
        want, have = (
            [Leaf(path, str(np.asarray(x).dtype), np.asarray(x)) for path, x in side.items()]
            for side in (expected, got)
        )
        if chosen := select(have, self.check.leaves):
            # The report of a measure shows the values instead, where these are wrong.
            have = chosen if not expected or {on_page(leaf.path) for leaf in chosen} & {*expected} else values(have)
        have = [replace(leaf, path=on_page(leaf.path)) for leaf in have]
        leaves = compared(replace(self.check, leaves=""), None, [want, have, []], self.check.tolerance)
        for leaf in leaves:
            if leaf.got and not expected:
                click.echo(f"{leaf.path}: {leaf.got}\n{leaf.got.values}")
            elif leaf.mismatch:
                click.echo(leaf.mismatch.sentence())
            else:
                click.echo(f"`{leaf.path}` is right")
        if expected and any(leaf.mismatch for leaf in leaves):
            click.echo(full_arrays.arrays(Counterexample(Case({}), leaves)))


def check(number: str, name: str, course: str = "") -> Check:
    """Returns the check of that name of a problem of a course, the one that the grader comes with unless another is
    named."""
    selection.select(course or selection.SHIPPED, "")
    problem = catalog.find(number)
    return Check(problem, next(item for item in problem.checks if item.name == name))


def saved(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the case and the expected arrays in a file of `grade try`."""
    with np.load(path) as data:
        values = {key: data[key] if data[key].ndim else data[key].item() for key in data.files}
    return tuple(  # type: ignore[return-value]
        {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        for prefix in (CASE, EXPECTED)
    )
