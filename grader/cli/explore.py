"""The commands of `grade` that hand a failing case to the learner: as a script, and in a Python session."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commandline import invocation, terminal
from commandline.errors import UsageError
from grader.cli import grading
from grader.course import catalog, workspace
from grader.judge.options import GradeOptions

if TYPE_CHECKING:
    from grader.report.script import Tried


@click.command(name="try")
@click.argument("word", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N", help="Generate different cases.")
@click.pass_obj
def try_(folder: str | None, word: str, file: Path | None, seed: int) -> None:
    """Write a script that runs your file on the failing case.

    The script try_pNN.py appears beside your file. It prints what your code returns beside what is expected, and works
    in a debugger. If you edit it, the next `grade try NN` keeps your copy. `grade repl NN` has the case at a prompt,
    without a file.
    """
    problem, file = _file(folder, word, file)
    if not file.stem.isidentifier() or file.suffix != ".py":
        raise UsageError(f"{file.name} cannot be imported by a script; copy it to {problem.name}.py.")
    from grader.report.script import write_beside

    tried = _tried(problem, file, seed)
    path, kept = write_beside(file, tried)
    if kept:
        click.echo(f"kept  {kept}: your edited copy")
    click.echo(f"new   {path}: {_described(tried)}")
    click.echo()
    python = invocation.python()
    terminal.echo(f"Run it with `{python} {path}`, or debug it with `{python} -m pdb {path}`.")


@click.command()
@click.argument("word", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N", help="Generate different cases.")
@click.pass_obj
def repl(folder: str | None, word: str, file: Path | None, seed: int) -> None:
    """Start Python with the failing case at hand.

    `case` holds the inputs by name, `expected` what the reference returns, and your workspace can be imported. Problems
    about several devices get eight CPU devices. To keep what you try, or for a debugger, write a script with `grade try
    NN`.
    """
    problem, file = _file(folder, word, file)
    import numpy as np

    tried = _tried(problem, file, seed)
    with tempfile.TemporaryDirectory(prefix="grade-") as scratch:
        data = Path(scratch) / "case.npz"
        np.savez(data, **tried.arrays())
        paths = [str(file.parent.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        startup = _STARTUP.format(
            devices=problem.devices, data=str(data), described=_described(tried), module=file.stem
        )
        # Ctrl-C belongs to the session.
        previous = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            code = subprocess.run([sys.executable, "-i", "-c", startup], env=environment, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, previous)
    sys.exit(code)


_STARTUP = """
from grader import tryout
tryout.start(devices={devices})
import jax, jax.numpy as jnp, numpy as np
from flax import nnx
case, expected = tryout.saved({data!r})
print({described!r} + ".")
print("case:     " + ", ".join(case))
print("expected: " + (", ".join(expected) or "nothing, because no case fails"))
print("Your file: import {module}. Also imported: jax, jnp, np, nnx. Devices: " + str(jax.device_count()) + ".")
"""


def _file(folder: str | None, word: str, file: Path | None) -> tuple[Any, Path]:
    """Returns the problem, and the learner's file for it."""
    problem = catalog.find(word)
    space = workspace.find(folder)
    if file is None:
        space.add(problem)
        file = space.file(problem)
    return problem, file


def _tried(problem: Any, file: Path, seed: int) -> "Tried":
    """Returns the case on which the file fails, or the first one."""
    report = grading.report(problem, file, GradeOptions(seed))
    from grader.report.script import Tried

    return Tried.of(report, seed)


def _described(tried: "Tried") -> str:
    what = (
        "the smallest case that was found to fail"
        if tried.failed
        else "no case fails by its numbers, or the file is not complete; this is the first case of"
    )
    return f"{what} the check {tried.check.name!r}"


COMMANDS = (try_, repl)
