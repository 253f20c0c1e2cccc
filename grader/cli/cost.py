"""The command `grade cost`: what a program costs."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.cli.grading import Attempt, fork_server
from grader.cli.play import html_option
from grader.course import catalog, workspace
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.judge.submission import Submission


@dataclass(frozen=True)
class _Counted:
    """What is counted: a file for a problem, and the attempt that it is, if it is for a problem of the course."""

    problem: Problem
    source: "Submission"
    attempt: Attempt | None = None


@click.command()
@click.argument("words", nargs=-1, metavar="[NN] [FILE]")
@click.option("--entry", metavar="NAME", help="Count this function of FILE, which is for no problem.")
@click.option(
    "--args", "given", metavar="TEXT", help='Arguments of that function, in order, such as "x: f32[1024,64], n: 3".'
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@html_option("Also write it as a web page.")
@click.option("--ship", is_flag=True, help="For authors: write the figures of the reference and of the other styles.")
@click.pass_obj
def cost(
    folder: str | None,
    words: tuple[str, ...],
    entry: str | None,
    given: str | None,
    as_json: bool,
    html: Path | None,
    ship: bool,
) -> None:
    """Count what your program for problem NN costs.

    FILE is the one in your workspace unless you name another. The operations, the memory and the lines that they come
    from are counted on the largest case of the problem, beside other correct programs. Nothing here counts for a
    verdict. With --entry, FILE is any file with a function of JAX. Exits 1 if the code cannot be run.
    """
    if ship:
        _ship(catalog.find(" ".join(words)))
        return
    with _chosen(folder, words, entry, given, as_json) as counted:
        problem, source = counted.problem, counted.source
        with fork_server(f"counting {problem.title}") as server:
            from grader.cost import records
            from grader.cost.statement import Statement

            attempt = counted.attempt
            earlier = records.counted(attempt.space.entries(), problem) if attempt and attempt.own else []
            statement = Statement.of(problem, source, server, [each.figures for each in earlier])
        click.echo(json.dumps(statement.encode(), ensure_ascii=False) if as_json else statement.text())
        if html:
            from commandline import files
            from grader.cost import page

            files.write(html, page.document(statement))
            terminal.echo(f"new   {html}", err=True)
        if attempt and attempt.own and statement.bill and attempt.space.folder.is_dir():
            news = records.note(attempt.space, problem, statement.bill, attempt.digest)
            if news and not as_json:
                click.echo()
                terminal.echo(news)
    sys.exit(0 if statement.is_counted else 1)


@click.command(name="records")
@click.argument("word", metavar="[NN]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@click.pass_obj
def records_(folder: str | None, word: str | None, as_json: bool) -> None:
    """Show the lowest costs of your programs.

    Records are those of programs that passed and that `grade cost` has counted. With NN, all figures of one problem,
    and its front: a program that lowers one figure by raising another is a record, too.
    """
    from grader.cost import compare, records, records_text

    space = workspace.find(folder)
    entries = space.entries()
    chosen = [catalog.find(word)] if word else catalog.problems()
    rows = [(problem, records.counted(entries, problem)) for problem in chosen]
    rows = [(problem, attempts) for problem, attempts in rows if any(each.passed for each in attempts)]
    if as_json:
        found = [
            {
                "problem": problem.name,
                "records": {name: each.figures[name] for name, each in records.best(attempts).items()},
                "front": [each.figures for each in records.front(attempts)],
            }
            for problem, attempts in rows
        ]
        click.echo(json.dumps({"schema": 1, "problems": found}))
    elif not rows:
        label = chosen[0].label if word else "NN"
        terminal.echo(f"There are no records yet: pass problem {label}, then count it with `grade cost {label}`.")
    elif word:
        click.echo(records_text.of_problem(*rows[0], compare.known(rows[0][0])))
    else:
        click.echo(records_text.table(rows))


@contextmanager
def _chosen(
    folder: str | None, words: tuple[str, ...], entry: str | None, given: str | None, as_json: bool
) -> Iterator[_Counted]:
    """Yields what the arguments name. Raises UsageError."""
    if entry is None:
        if given is not None or not 1 <= len(words) <= 2:
            raise UsageError("Name a problem, such as `grade cost 07`, or a function, with --entry, --args and a file.")
        problem, file = catalog.find(words[0]), Path(words[1]) if len(words) == 2 else None
        attempt = Attempt.at(workspace.find(folder), problem, file, machine_readable=as_json)
        yield _Counted(problem, _read(problem, attempt.file), attempt)
        return
    if given is None or len(words) != 1:
        raise UsageError('Name the file and the arguments: `grade cost --entry f file.py --args "x: f32[1024,64]"`.')
    from grader.cost import function

    with function.as_problem(entry, given) as problem:
        yield _Counted(problem, _read(problem, Path(words[0])))


def _read(problem: Problem, file: Path) -> "Submission":
    from grader.judge import submission

    try:
        return submission.read(problem, file)
    except submission.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None


def _ship(problem: Problem) -> None:
    with fork_server(f"counting problem {problem.label}") as server:
        from grader.cost import compare

        path = compare.write(problem, server)
    terminal.echo(f"new   {path}" if path else f"Problem {problem.label} has no program to count.")


COMMANDS = (cost, records_)
