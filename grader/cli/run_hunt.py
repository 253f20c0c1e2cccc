"""`grade hunt --run`: the hunt in a whole training run."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.invocation import command
from commandline.progress import working
from grader.course import catalog, workspace


@dataclass(frozen=True)
class Answers:
    """The options of a learner's command: an answer (the piece and the line, the idea, the mend) or a request."""

    piece: str | None = None
    line: int | None = None
    idea: str | None = None
    mend: bool = False
    hint: bool = False
    give_up: bool = False

    @property
    def any(self) -> bool:
        return any(vars(self).values())


def hunt_in_run(home: workspace.Workspace, answers: Answers) -> int:
    """Begins, shows or continues the hunt. Returns the exit code."""
    from grader.practice.runs import RunSpace

    space = RunSpace(home)
    current = space.under_way()
    if current is None:
        if answers.any:
            raise UsageError("No hunt in a run is under way. `grade hunt --run` begins one.")
        space.pieces()
        with working("training twice, with sound pieces and with a broken one"):
            current = space.begin(os.urandom(4).hex())
        _show(space, current)
        return 0
    if answers.give_up:
        return _end(space, current, mended=False)
    if answers.hint:
        asked = current.hints < len(current.kind.questions)
        terminal.echo(current.kind.questions[current.hints] if asked else "There are no more questions.")
        space.note(current, hints=current.hints + asked)
    if answers.piece or answers.line:
        _place(space, current, answers)
    if answers.idea:
        _idea(space, current, answers.idea)
    if answers.mend:
        return _mend(space, current)
    if not answers.any:
        _show(space, current)
    return 0


def _show(space: Any, current: Any) -> None:
    from grader.practice.runs import STEPS

    folder: Path = space.folder(current)
    click.echo(click.style("A hunt in a training run", bold=True))
    terminal.echo(f"A run of {STEPS} steps with the eight pieces in {folder}. One of them is broken.")
    click.echo()
    terminal.echo(current.symptom)
    click.echo()
    terminal.echo(
        f"The curves are in {folder / 'runs' / 'broken'}, those of sound pieces in {folder / 'sound-loss.svg'}. "
        f"Change what you like and train again: `{command('harness')} train --pieces {folder} --steps {STEPS}`."
    )
    terminal.echo(
        "Which piece, and which line? `grade hunt --run --piece NN --line N`. `--hint` asks a question that helps."
    )


def _place(space: Any, current: Any, answers: Answers) -> None:
    if answers.piece is None:
        raise UsageError("Name the piece, too: `grade hunt --run --piece NN --line N`.")
    problem, program = catalog.find(answers.piece), space.program(current)
    is_piece = problem.name == program.hunt.problem.name
    is_line = is_piece and answers.line in program.fault
    space.note(current, line=answers.line or None, piece=str(problem.name))
    if not is_piece:
        terminal.echo(f"Piece {problem.label} is sound.")
    elif not is_line:
        line = f", but its line {answers.line} is as in the sound one" if answers.line else "; which line is it?"
        terminal.echo(f"Yes, piece {problem.label} is broken{line}")
    else:
        from grader.practice.hunting import LETTERS

        terminal.echo(f"Yes, the fault is at line {answers.line} of piece {problem.label}. Which idea is behind it?")
        for letter, idea in zip(LETTERS, program.ideas, strict=False):
            terminal.echo(f"  {letter}  {idea}", indent=5)
        terminal.echo("Answer with `grade hunt --run --idea A`, then mend the piece and `grade hunt --run --mend`.")


def _idea(space: Any, current: Any, letter: str) -> None:
    program, number = space.program(current), ord(letter.upper()) - ord("A")
    space.note(current, idea=number + 1)
    terminal.echo("Yes, that is the idea." if number == program.answer else "No, that would look different.")


def _mend(space: Any, current: Any) -> int:
    """Grades the broken piece with the others beside it."""
    from grader.cli.grading import fork_server
    from grader.judge import submission
    from grader.practice import hunting, run_program

    program = space.program(current)
    problem, changed = program.hunt.problem, space.changed(current)
    path = space.folder(current) / f"{problem.name}.py"
    try:
        source = submission.read(problem, path)
    except submission.UnreadableSubmissionError as error:
        raise UsageError(f"{path}: {error}") from None
    with fork_server("grading the pieces") as workers:
        failed = next(run_program.failures(problem, source, workers), None)
    space.note(current, verdict=str(failed.result.verdict) if failed else "PASS")
    if failed:
        terminal.echo("Not yet: one piece is still broken.")
        return 1
    others = [other.label for other in changed if other.name != problem.name]
    if others or hunting.is_rewrite(program, source.sources[problem.name]):
        what = f"you have also changed {', '.join(others)}, which was sound" if others else "it is a rewrite"
        terminal.echo(f"All pieces are sound now, but {what}. Change only what is wrong.")
        return 1
    return _end(space, current, mended=True)


def _end(space: Any, current: Any, *, mended: bool) -> int:
    from grader.practice import hunting

    program = space.program(current)
    space.note(current, "hunted", mended=mended or None)
    terminal.echo("All pieces are sound. The run is mended." if mended else "The hunt has ended.")
    click.echo()
    terminal.echo(f"The broken piece is {program.hunt.problem.label}, {program.hunt.problem.title}.")
    for line in hunting.lesson(current, program):
        terminal.echo(line)
    return 0
