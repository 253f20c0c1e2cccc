"""The command `grade cost`: what a program costs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.cli.grading import Attempt, fork_server
from grader.course import catalog, workspace
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.cost.bill import Bill, Uncounted
    from grader.cost.timing import Timing
    from grader.judge.submission import Submission
    from grader.judge.worker_session import Failure

SCHEMA = 1  # of `--json`: an incompatible change increases it


@click.command()
@click.argument("word", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@click.option("--ship", is_flag=True, help="For authors: write the figures of the reference and of the other styles.")
@click.pass_obj
def cost(folder: str | None, word: str, file: Path | None, as_json: bool, ship: bool) -> None:
    """Count what your program for problem NN costs.

    FILE is the one in your workspace unless you name another. The operations, the memory and the lines that they come
    from are counted on the largest case of the problem, beside other correct programs. Nothing here counts for a
    verdict. Exits 1 if your code cannot be run.
    """
    problem = catalog.find(word)
    if ship:
        _ship(problem)
        return
    attempt = Attempt.at(workspace.find(folder), problem, file, machine_readable=as_json)
    source = _read(problem, attempt.file)
    with fork_server(f"counting problem {problem.label}") as server:
        from grader.cost import bill, timing

        result: Bill | Uncounted | Timing | Failure = bill.count(problem, source, server)
        if isinstance(result, bill.Uncounted) and not result.failure:
            notes = result.notes
            result = timing.time(problem, source, server)
        else:
            notes = ()
    shown = _as_json(problem, result) if as_json else _as_text(problem, source, result, notes)
    click.echo(shown)
    sys.exit(1 if isinstance(result, _failures()) else 0)


def _failures() -> tuple[type, ...]:
    from grader.cost.bill import Uncounted
    from grader.judge.worker_session import Failure

    return Uncounted, Failure


def _read(problem: Problem, file: Path) -> "Submission":
    from grader.judge import submission

    try:
        return submission.read(problem, file)
    except submission.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None


def _as_text(
    problem: Problem, source: "Submission", result: "Bill | Uncounted | Timing | Failure", notes: tuple[str, ...]
) -> str:
    from grader.cost import bill, compare
    from grader.cost import terminal as rendered
    from grader.cost.timing import Timing

    columns = terminal.width()
    title = click.style(f"Problem {problem.label}, {problem.title}: what your program costs", bold=True)
    if isinstance(result, bill.Bill):
        about = terminal.wrap(f"Counted on {bill.described(problem)}, with {result.counted_with}.", columns)
        return "\n".join([title, *about, "", rendered.render(result, source.sources, compare.known(problem))])
    if isinstance(result, Timing):
        why = f"It has no program to count: {'; '.join(notes)}." if notes else ""
        return "\n".join([title, *terminal.wrap(why, columns), rendered.render_timing(result)])
    return "\n".join([title, *terminal.wrap(f"There is nothing to count: {result.sentence()}", columns)])


def _as_json(problem: Problem, result: "Bill | Uncounted | Timing | Failure") -> str:
    from dataclasses import asdict

    from grader.cost import bill, compare, roofline
    from grader.cost.timing import Timing

    fields: dict[str, Any] = {"schema": SCHEMA, "problem": problem.name}
    if isinstance(result, bill.Bill):
        known = compare.known(problem)
        fields |= {
            "case": bill.described(problem),
            "bill": result.encode(),
            "others": {"counted_with": known.counted_with, "programs": known.programs},
            "roofline": [asdict(each) | {"binds": each.binds} for each in roofline.times(result.figures)],
        }
    elif isinstance(result, Timing):
        fields["timing"] = asdict(result)
    else:
        fields["error"] = result.sentence()
    return json.dumps(fields, ensure_ascii=False)


def _ship(problem: Problem) -> None:
    with fork_server(f"counting problem {problem.label}") as server:
        from grader.cost import compare

        path = compare.write(problem, server)
    terminal.echo(f"new   {path}" if path else f"Problem {problem.label} has no program to count.")


COMMANDS = (cost,)
