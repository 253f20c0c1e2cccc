"""The commands of `grade` for teachers: hand out, grade a class, put the grader where a course system runs it."""

from pathlib import Path

import click

# The formats of `grader.report.formats` and `grader.batch.gradebook`, named here so that help need not import them.
FORMATS = ("gradescope", "github", "junit", "json", "prairielearn", "text")
GRADEBOOKS = ("canvas", "nbgrader")


@click.command()
@click.argument("submissions", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "results",
    required=True,
    metavar="RESULTS",
    type=click.Path(path_type=Path),
    help="The folder for the results.",
)
@click.option("--problems", metavar="LIST", help="Which, such as 01-08,12 [default: all that somebody handed in].")
@click.option("--seed-file", type=click.Path(path_type=Path), help="A file with a secret, which decides the cases.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Submissions graded at a time [default: one a core].")
@click.option(
    "--timeout", type=click.FloatRange(0, 86400, min_open=True), metavar="S", help="Seconds each submission may take."
)
@click.option(
    "--accept-isolation", type=click.Choice(["partial", "weak"]), help="Grade although isolation is not strict."
)
@click.option(
    "--format",
    "formats",
    type=click.Choice([*FORMATS, *GRADEBOOKS]),
    multiple=True,
    help="Write the marks as another system reads them, too.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Grade on a Dask cluster (tcp://HOST:PORT).")
def batch(
    submissions: Path,
    results: Path,
    problems: str | None,
    seed_file: Path | None,
    jobs: int | None,
    timeout: float | None,
    accept_isolation: str | None,
    formats: tuple[str, ...],
    scheduler: str | None,
) -> None:
    """Grade a class.

    SUBMISSIONS is a folder or archive with one folder for each learner, or an export of Gradescope, Canvas or Moodle as it
    comes. RESULTS gets results.csv, results.sqlite and a summary. The same command goes on where an earlier one was
    interrupted, and grades only what has changed.
    """
    from grader.batch import command
    from grader.isolation.level import Level

    options = command.BatchOptions(
        problems, seed_file, jobs, timeout, Level(accept_isolation or Level.STRICT), scheduler, formats
    )
    for line in command.batch(submissions, results, options):
        click.echo(line)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", help="Which, such as 01-08,12 [default: all].")
def pack(directory: Path, problems: str | None) -> None:
    """Make the learners' bundle: all but the solutions, in DIRECTORY.

    Pages, stubs and the grader are there, and `grade problem` works: it knows what the references give on the public cases,
    and nothing of how.
    """
    from grader.course import catalog
    from grader.handout import pack as pack_

    chosen = catalog.select(problems) if problems else catalog.problems()
    for line in pack_.pack(directory, chosen):
        click.echo(line)


@click.group()
def export() -> None:
    """Put the grader where a course system runs it."""


@export.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", required=True, help="Which, such as 01-08,12.")
@click.option(
    "--seed-file",
    type=click.Path(path_type=Path),
    help="A file with a secret that decides the cases [default: a new one].",
)
def gradescope(archive: Path, problems: str, seed_file: Path | None) -> None:
    """Make a Gradescope autograder: ARCHIVE is the zip file to upload. It holds the solutions; do not hand it out."""
    from grader.course import catalog
    from grader.handout import export as export_

    export_.gradescope(archive, catalog.select(problems), seed_file)
    click.echo(str(archive))


@export.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", required=True, help="Which, such as 01-08,12.")
def github(directory: Path, problems: str) -> None:
    """Make a GitHub Classroom assignment: DIRECTORY is the repository to start from, with its workflow and the bundle."""
    from grader.course import catalog
    from grader.handout import export as export_

    for line in export_.github(directory, catalog.select(problems)):
        click.echo(line)


COMMANDS = (batch, pack, export)
