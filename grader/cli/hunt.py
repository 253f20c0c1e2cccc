"""The command `grade hunt`."""

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.course import catalog, workspace
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.practice.hunting import HuntSpace, UnderWay
    from grader.practice.hunts import Program


@dataclass(frozen=True)
class _Answers:
    """The options of a learner's command: an answer (the line, the idea, the mend) or a request."""

    line: int | None
    idea: str | None
    mend: bool
    hint: bool
    play: bool
    restart: bool
    give_up: bool

    @property
    def any(self) -> bool:
        return any(vars(self).values())


@click.command()
@click.argument("word", metavar="[NN]", required=False)
@click.option("--run", "in_run", is_flag=True, help="Hunt in a whole training run, made of eight pieces.")
@click.option("--piece", metavar="NN", help="Answer, with --run: this piece is broken.")
@click.option("--line", type=click.IntRange(min=1), metavar="N", help="Answer: the fault is in this line.")
@click.option(
    "--idea", type=click.Choice(list("ABCD"), case_sensitive=False), help="Answer: this is the idea behind it."
)
@click.option("--mend", is_flag=True, help="Grade the program that you have mended.")
@click.option("--hint", is_flag=True, help="Show the next question that helps.")
@click.option("--play", is_flag=True, help="See the program at work in a trained model, as its owner did.")
@click.option("--restart", is_flag=True, help="Write the program again, as it was. Your file is kept beside it.")
@click.option("--give-up", is_flag=True, help="End the hunt, and see the fault.")
@click.pass_obj
def hunt(
    folder: str | None,
    word: str | None,
    in_run: bool,
    piece: str | None,
    line: int | None,
    idea: str | None,
    mend: bool,
    hint: bool,
    play: bool,
    restart: bool,
    give_up: bool,
) -> None:
    """Find the fault in a program that looks right.

    You get a program with one fault, and what its owner sees. Answer with the line, then with the idea behind the
    fault, then mend the program. Hunts come from problems that you have passed: of problem NN, if you name one. The
    mistakes that you made yourself come first.
    """
    from grader.practice.hunting import HuntSpace

    if in_run:
        from grader.cli.run_hunt import Answers, hunt_in_run

        if word or restart or play:
            raise UsageError("--run takes no problem, and has neither --restart nor --play.")
        sys.exit(hunt_in_run(workspace.find(folder), Answers(piece, line, idea, mend, hint, give_up)))
    space = HuntSpace.of(workspace.find(folder))
    problem = catalog.find(word) if word else None
    current = space.under_way(problem)
    answers = _Answers(line, idea, mend, hint, play, restart, give_up)
    if current:
        _continue(space, current, answers)
    elif answers.any:
        raise UsageError("No hunt is under way. `grade hunt` begins one.")
    else:
        _show(space, _begin(space, problem))


def _continue(space: "HuntSpace", current: "UnderWay", answers: _Answers) -> None:
    """Carries out the request in `answers`, in the order of a hunt; shows the hunt if they are empty."""
    program = space.program(current)
    if answers.hint:
        _hint(space, current)
    if answers.line:
        _line(space, current, program, answers.line)
    if answers.idea:
        _idea(space, current, program, answers.idea)
    if answers.restart:
        _restart(space, program)
    if answers.give_up:
        space.note_end(current)
        _lesson(current, program)
    elif answers.play:
        sys.exit(_play(space, program))
    elif answers.mend:
        sys.exit(_mend(space, current, program))
    elif not answers.any:
        _show(space, current)


def _begin(space: "HuntSpace", problem: Problem | None) -> "UnderWay":
    """Chooses a hunt, and runs it to see its symptom. Skips a hunt that turns out to be unfair."""
    from grader.cli.grading import fork_server
    from grader.practice import first_look, hunt_soundness

    seed = os.urandom(4).hex()
    with fork_server("preparing a hunt") as workers:
        for program, failed in hunt_soundness.offered(space.candidates(problem), seed, workers):
            return space.begin(program, seed, first_look.symptom(program, failed, workers))
    raise UsageError("There is no further hunt here. Pass more problems to get more.")


def _show(space: "HuntSpace", current: "UnderWay") -> None:
    from grader.course import plays
    from grader.practice import hunting

    problem, program = catalog.load(current.problem), space.program(current)
    space.note_shown(current)
    click.echo(click.style(f"A hunt in problem {problem.label}, {problem.title}", bold=True))
    terminal.echo(f"The program is {space.file(problem)}.")
    click.echo()
    terminal.echo(current.symptom)
    if plays.find(problem):
        terminal.echo("See it at work in a trained model: `grade hunt --play`.")
    click.echo()
    if not hunting.solved_line(current, program):
        terminal.echo("Which line is it? `grade hunt --line N`. `grade hunt --hint` asks you a question that helps.")
    elif not hunting.solved_idea(current, program):
        _ideas(program)
    else:
        terminal.echo("Mend the program, then `grade hunt --mend`.")


def _ideas(program: "Program") -> None:
    from grader.practice.hunting import LETTERS

    click.echo("Which idea is behind it?")
    for letter, idea in zip(LETTERS, program.ideas, strict=False):
        terminal.echo(f"  {letter}  {idea}", indent=5)
    terminal.echo(f"Answer with `grade hunt --idea {LETTERS[0]}`, then mend the program.")


def _line(space: "HuntSpace", current: "UnderWay", program: "Program", line: int) -> None:
    if space.answer_line(current, line):
        terminal.echo(f"Yes, the fault is at line {line}.")
        _ideas(program)
    else:
        where = f"Line {line} of the program for {program.hunt.problem.label}"
        terminal.echo(f"{where} is as in the sound program. `grade hunt --hint` asks you a question that helps.")


def _idea(space: "HuntSpace", current: "UnderWay", program: "Program", letter: str) -> None:
    if space.answer_idea(current, ord(letter.upper()) - ord("A")):
        terminal.echo("Yes, that is the idea. Now mend the program, then `grade hunt --mend`.")
    else:
        terminal.echo("No, that would look different. Which of the others gives what the owner saw?")


def _hint(space: "HuntSpace", current: "UnderWay") -> None:
    question = space.next_question(current)
    terminal.echo(question or "There are no more questions. `grade hunt --give-up` shows the fault.")


def _restart(space: "HuntSpace", program: "Program") -> None:
    kept = space.put(program.hunt.problem, program.text)
    terminal.echo(f"The program is as it was.{f' Yours is kept in {kept}.' if kept else ''}")


def _play(space: "HuntSpace", program: "Program") -> int:
    """Plays the program as the learner has it now."""
    from grader.cli.play import played

    problem = program.hunt.problem
    title = f"Problem {problem.label}, {problem.title}: the program of your hunt at work"
    return played(problem, space.file(problem), None, title, modules=space.modules, compare=False)


def _mend(space: "HuntSpace", current: "UnderWay", program: "Program") -> int:
    """Grades the mended program. Shows only the symptom, because its report would answer the other questions."""
    from grader.cli.grading import fork_server
    from grader.judge import submission
    from grader.practice import hunting, run_program, symptoms

    problem = program.hunt.problem
    try:
        source = submission.read(problem, space.file(problem), space.modules)
    except submission.UnreadableSubmissionError as error:
        raise UsageError(f"{space.file(problem)}: {error}") from None
    with fork_server(f"grading problem {problem.label}") as workers:
        failed = next(run_program.failures(problem, source, workers), None)
    space.note_trial(current, str(failed.result.verdict) if failed else "PASS")
    if failed:
        terminal.echo(f"Not yet. {symptoms.of(failed.result).text}")
        return 1
    if hunting.is_rewrite(program, source.sources[problem.name]):
        terminal.echo(
            "It passes, but it is a rewrite: much more has changed than the fault. On the job, nobody would know what "
            "was wrong. `grade hunt --restart` writes the program again; then change only what is wrong."
        )
        return 1
    terminal.echo("It passes. The program is mended.")
    named = {"line": hunting.solved_line(current, program), "idea": hunting.solved_idea(current, program)}
    if without := [f"the {what}" for what, known in named.items() if not known]:
        terminal.echo(f"You mended it without naming {' and '.join(without)}, which is allowed.")
    space.note_end(current, mended=True)
    _lesson(current, program)
    return 0


def _lesson(current: "UnderWay", program: "Program") -> None:
    from grader.practice import hunting

    click.echo()
    for line in hunting.lesson(current, program):
        terminal.echo(line)
    terminal.echo("`grade hunt` begins another one.")


COMMANDS = [hunt]
