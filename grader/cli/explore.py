"""The commands of `grade` with which a learner finds out: predictions, and a failing case as a script and in a Python
session."""

import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commandline import invocation, terminal
from commandline.errors import UsageError
from grader.cli import grading
from grader.course import catalog, page, predictions, workspace
from grader.course.predictions import Prediction
from grader.course.workspace import Workspace
from grader.judge.options import GradeOptions
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.report.script import Tried


@click.command()
@click.argument("word", metavar="NN")
@click.option("--again", is_flag=True, help="Ask also what you have answered rightly.")
@click.pass_obj
def predict(folder: str | None, word: str, again: bool) -> None:
    """Answer the questions of page NN before you read on.

    Nothing is counted. What you answered wrongly is asked again, here and in reviews.
    """
    problem, space = catalog.find(word), workspace.find(folder)
    known, questions = space.predicted(problem), predictions.of(problem)
    left = [question for question in questions if again or not known.get(question.id)]
    if not questions:
        click.echo(f"Page {problem.label} asks for no predictions.")
    elif not left:
        terminal.echo(
            f"You have answered all of page {problem.label}. `grade predict {problem.label} --again` asks again."
        )
    for question in left:
        _ask(problem, space, question)
    if not space.standing(problem).passed:
        terminal.echo(
            f"Next: read on with `grade show {problem.label}`, fill in {space.file(problem)}, grade it with `grade "
            f"problem {problem.label}`."
        )


def _ask(problem: Problem, space: Workspace, question: Prediction) -> None:
    """Asks a question until there is an answer, and says whether it is right, and why."""
    click.echo(terminal.markdown(page.as_text(question.asked)))
    answered = partial(space.predict, problem, question) if space.folder.is_dir() else question.is_right
    while True:
        text = click.prompt("Your answer", prompt_suffix=": ")
        try:
            right = answered(text)
            break
        except ValueError as error:
            click.echo(str(error))
    click.echo(terminal.markdown(page.as_text(f"{question.reply(right=right)} {question.why}\n")))


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


COMMANDS = (predict, try_, repl)
