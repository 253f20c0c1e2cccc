"""The commands of `grade` on the results of a class: show them, and send the marks to a course system."""

from pathlib import Path

import click

from commandline.errors import UsageError
from commandline.text import printable


@click.command()
@click.argument("folder", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option("--learner", metavar="TEXT", help="Only learners whose name contains TEXT.")
@click.option("--problem", "problems", metavar="LIST", help="Only these problems, such as 01-08,12.")
@click.option("--verdict", metavar="TEXT", help="Only results with a verdict that contains TEXT, such as fail.")
@click.option("--misconception", metavar="TEXT", help="Only results with a misconception that contains TEXT.")
@click.option("--section", metavar="TEXT", help="Only learners of a section of the roster that contains TEXT.")
@click.option("--join", nargs=2, metavar="OLD NEW", help="Make two learners one, NEW, with the attempts of both.")
@click.option(
    "--set",
    "decision",
    nargs=3,
    metavar="LEARNER NN POINTS",
    help="Set a mark by hand; the word `graded` for POINTS takes that back.",
)
@click.option(
    "--add",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Add the learners of another results folder, none of whom is in RESULTS.",
)
@click.option("--export", metavar="LEARNER", help="Print all that is known of a learner, as JSON.")
@click.option("--forget", metavar="LEARNER", help="Delete a learner with all attempts, marks and reports.")
@click.option("--because", default="", metavar="TEXT", help="The reason for --join or --set, for the record.")
def results(
    folder: Path,
    learner: str | None,
    problems: str | None,
    verdict: str | None,
    misconception: str | None,
    section: str | None,
    join: tuple[str, str] | None,
    decision: tuple[str, str, str] | None,
    add: Path | None,
    export: str | None,
    forget: str | None,
    because: str,
) -> None:
    """Show the results of a class.

    RESULTS is the folder that `grade batch` writes to, also while it is writing. Files that were not used come last.
    """
    from grader.batch import identity, listing, marks

    if sum(map(bool, (join, decision, add, export, forget))) > 1:
        raise UsageError("--join, --set, --add, --export and --forget are different commands; give one at a time.")
    if add:
        click.echo(printable(identity.add(folder, add)))
        return
    if export or forget:
        from grader.batch import privacy

        click.echo(privacy.exported(folder, export) if export else printable(privacy.forget(folder, str(forget))))
        return
    if decision:
        click.echo(printable(marks.decide(folder, *decision, because)))
        return
    if join:
        click.echo(printable(identity.join(folder, *join, because)))
        return
    if because:
        raise UsageError("--because needs --join with the two learners, or --set with a mark.")
    for line in listing.lines(folder, listing.Filter(learner, problems, verdict, misconception, section)):
        click.echo(printable(line))


@click.group()
def push() -> None:
    """Send the marks of a class to a course system."""


@push.command()
@click.argument("folder", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option("--url", required=True, envvar="CANVAS_URL", help="Your Canvas, such as https://canvas.example.edu.")
@click.option("--course", required=True, metavar="ID", help="The course's number, from its address.")
@click.option(
    "--assignment",
    "assignments",
    multiple=True,
    metavar="NN=ID",
    help="The assignment of a problem [default: the one that is named like its column in canvas.csv].",
)
@click.option("--send", is_flag=True, help="Send the marks. Without it, nothing is changed.")
@click.option("--overwrite", is_flag=True, help="Also send marks in place of others that somebody entered in Canvas.")
@click.option("--comments", is_flag=True, help="Also send what learners are told of their files, as a comment on each.")
def canvas(
    folder: Path, url: str, course: str, assignments: tuple[str, ...], send: bool, overwrite: bool, comments: bool
) -> None:
    """Send the marks to Canvas.

    Shows the marks that differ from those in Canvas; with --send, sends them. A mark that was not sent from here is
    somebody's decision and stays. A comment is sent once, and again only when its text has changed. Repeat the command
    after an interruption: it sends what is left. Your access token is read from the variable CANVAS_TOKEN.
    """
    from grader.batch import push as push_

    target = push_.Target(url, course, assignments)
    for line in push_.push(folder, target, send=send, overwrite=overwrite, comments=comments):
        click.echo(printable(line))


COMMANDS = (results, push)
