"""The command `grade play`: runs a learner's file in a trained model."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from commandline import terminal
from commandline.progress import working
from grader.course import catalog, plays, workspace

if TYPE_CHECKING:
    from grader.exhibits import Exhibit, Progress

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


def html_option(says: str) -> Callable[[Command], Command]:
    """Returns the option --html. Its help names the contents of the page."""
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--html", type=path, metavar="FILE.html", help=says)


@click.command()
@click.argument("word", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--text", metavar="TEXT", help="The text to play with, where a play takes one.")
@click.option("--numbers", is_flag=True, help="Also show the table of numbers behind each picture.")
@html_option("Also write what is shown as a web page.")
@click.option(
    "--runs", type=click.Path(path_type=Path, file_okay=False), default="runs", show_default=True,
    help="Directory of your training runs.",
)  # fmt: skip
@click.pass_obj
def play(
    folder: str | None, word: str, file: Path | None, text: str | None, numbers: bool, html: Path | None, runs: Path
) -> None:  # fmt: skip
    """See your file for problem NN at work in a trained model.

    FILE is the one in your workspace unless you name another. Nothing here counts for a verdict. Exits 0 when the play
    is over, 1 if your code ended it early.
    """
    problem = catalog.find(word)
    found = plays.required(problem, text)
    space = workspace.find(folder)
    if file is None:
        space.add(problem)
        file = space.file(problem)
    title = f"Problem {problem.label}, {problem.title}: see it work"
    after: Sequence[Exhibit] = ()
    if found.ends_with_run:
        from grader.report import exhibits_own_run, own_run

        after = exhibits_own_run.exhibits(own_run.best(runs))
    code = played(problem, file, text, title, numbers=numbers, html=html, after=after)
    if not code and (offer := plays.offer(problem, file)):
        click.echo(f"\n{offer.said}\n\n  {offer.command}")  # whole lines, which can be copied
    sys.exit(code)


def played(
    problem: Any, file: Path, text: str | None, title: str, *, numbers: bool = False, html: Path | None = None,
    modules: Path | None = None, after: "Sequence[Exhibit]" = (), compare: bool = True,
) -> int:  # fmt: skip
    """Plays a file, with the course modules that it imports from `modules`, and shows its exhibits. Returns the exit
    code.

    `after` are exhibits to show at the end. Says with `compare` how the exhibits differ from those of a right file,
    unless it is known that this one passes.
    """
    from grader.judge import submission
    from grader.resident import client, grade_file
    from grader.resident.messages import PlayRequest

    try:
        source = submission.read(problem, file, modules)
    except submission.UnreadableSubmissionError as error:
        terminal.echo(f"Nothing to play: {error}")
        return 1
    click.echo(click.style("\n".join(terminal.wrap(title, terminal.width())), bold=True))
    seen = 0
    if html is None:  # a page needs the exhibits themselves
        question = PlayRequest(str(problem.name), source, text, terminal.width(), numbers, compare)
        for item in _with_sign_of_life(client.play(question), problem):
            if isinstance(item, int):
                _show(after, numbers=numbers)
                return item
            click.echo(f"\n{item}")
            seen += 1
    with grade_file.fork_server() as fork_server:
        from grader.play.play_session import Performance
        from grader.report.exhibits_terminal import ending, render

        performance = Performance(problem, source, fork_server, text, compare=compare)
        shown = list["Exhibit"]()
        exhibits: Iterator[Exhibit] = _with_sign_of_life(performance, problem)
        for exhibit in exhibits:
            shown.append(exhibit)
            if len(shown) > seen:
                click.echo(f"\n{render(exhibit, terminal.width(), numbers=numbers)}")
    for paragraph in ending(performance.ending(), terminal.width()):
        click.echo(f"\n{paragraph}")
    if html:
        from commandline import files
        from grader.course.selection import selected
        from grader.report.exhibits_page import document

        files.write(html, document(title, selected().title, [*shown, *after], performance.ending()))
        terminal.echo(f"new   {html}", err=True)
    _show(after, numbers=numbers)
    return 1 if performance.failure else 0


def _show(exhibits: "Sequence[Exhibit]", *, numbers: bool) -> None:
    from grader.report.exhibits_terminal import render

    for exhibit in exhibits:
        click.echo(f"\n{render(exhibit, terminal.width(), numbers=numbers)}")


def _with_sign_of_life(items: "Iterable[T | Progress]", problem: Any) -> "Iterator[T]":
    """Yields the exhibits of a play. Shows a spinner and the progress of training while the next one is being made."""
    from grader.exhibits import Progress

    rest = iter(items)
    while True:
        with working(f"playing problem {problem.label}") as say:
            item = next(rest, None)
            while isinstance(item, Progress):
                say(item.said)
                item = next(rest, None)
        if item is None:
            return
        yield item


def add_to_report(report: Any, file: Path, path: Path) -> None:
    """Plays a graded file, and writes the page of its report again with what the play shows.

    Nothing is played that could not run. After Ctrl-C, the page stays as it is.
    """
    problem = report.problem
    if not report.can_play:
        return
    from commandline import files
    from grader.judge import submission
    from grader.play.play_session import Performance
    from grader.report import exhibits_page, html_report
    from grader.resident import grade_file

    try:
        with grade_file.fork_server() as fork_server:
            performance = Performance(problem, submission.read(problem, file), fork_server)
            shown: list[Exhibit] = list(_with_sign_of_life(performance, problem))
            played = exhibits_page.article(f"Problem {problem.label}: see it work", shown, performance.ending())
            files.write(path, html_report.document(report, played))
    except KeyboardInterrupt:
        terminal.echo(f"Stopped; {path} has the report without the play.", err=True)


COMMANDS = (play,)
