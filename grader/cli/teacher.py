"""The commands of `grade` for teachers: hand out problems, grade a class, export the grader to a course system."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commandline import files
from commandline.text import printable

if TYPE_CHECKING:
    from grader.isolation.level import Level

# The formats of `grader.report.formats` and `grader.batch.gradebook`, named here so that help need not import them.
FORMATS = ("classroom50", "gradescope", "junit", "json", "prairielearn", "text")
GRADEBOOKS = ("canvas",)
REVEALS = ("verdict", "idea", "advice")


@click.command()
@click.argument("submissions", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "results",
    required=True,
    metavar="RESULTS",
    type=click.Path(path_type=Path),
    help="Folder for the results.",
)
@click.option(
    "--problems", metavar="LIST", help="Problems to grade, such as 01-08,12 [default: all that were submitted]."
)
@click.option("--seed-file", type=click.Path(path_type=Path), help="File with a secret seed for the hidden cases.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Submissions graded at a time [default: one per core].")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86400, min_open=True),
    metavar="S",
    help="Time limit for each submission, in seconds of computing.",
)
@click.option(
    "--accept-isolation",
    type=click.Choice(["partial", "weak"]),
    help="Grade even if isolation is only partial or weak.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice([*FORMATS, *GRADEBOOKS, "moodle"]),
    multiple=True,
    help="Also write the scores in the format of another system, or the learners' pages as a feedback zip for Moodle.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Grade on a Dask cluster (tcp://HOST:PORT).")
@click.option(
    "--deadlines", type=click.Path(path_type=Path), help="YAML file with due dates and what a late submission costs."
)
@click.option(
    "--keep",
    type=click.Choice(["best", "last"]),
    default="best",
    show_default=True,
    help="The attempt that counts where a learner submitted several times.",
)
@click.option(
    "--roster", type=click.Path(path_type=Path), help="Gradebook exported from Canvas or Moodle, to get the marks."
)
@click.option("--name", default="", metavar="TEXT", help="Name of the class [default: that of SUBMISSIONS].")
@click.option(
    "--groups",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Table of groups (learner, group, or an export): what one member hands in is every member's.",
)
@click.option(
    "--regrade",
    multiple=True,
    metavar="LEARNER[:NN]",
    help="Grade a learner's submissions again, of problem NN or all.",
)
@click.option(
    "--regrade-check",
    "regrade_checks",
    nargs=2,
    multiple=True,
    metavar="NN CHECK",
    help="Grade one check of problem NN again, by its name, for everybody; the other checks keep their results.",
)
@click.option("--because", default="", metavar="TEXT", help="The reason for a regrade, for the record.")
@click.option("--never-lower", is_flag=True, help="Keep a mark that would fall without a new submission.")
@click.option("--keep-marks", is_flag=True, help="Keep every mark that would change without a new submission.")
@click.option(
    "--known",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Solutions that learners can have found, such as an earlier year's submissions, to compare files with.",
)
@click.option(
    "--without",
    type=click.Choice(["seed-file", "deadlines", "roster", "groups", "known"]),
    multiple=True,
    help="A file that the last batch had and this one shall not.",
)
@click.option(
    "--feedback", type=click.Path(path_type=Path), metavar="DIR", help="Also write a web page for each learner to DIR."
)
@click.option(
    "--reveal",
    type=click.Choice(REVEALS),
    help="What pages and reports tell learners: the verdict of each check, the named misconception too, or also the "
    "difference and advice [default: advice].",
)
@click.option(
    "--reveal-after-due",
    type=click.Choice(REVEALS),
    help="What they tell learners whose due date is over [default: the same].",
)
@click.option(
    "--records", is_flag=True, help="Also write a page with what passed programs cost, for those who chose a pseudonym."
)
@click.option(
    "--hunts", is_flag=True, help="Mark the hunts of `grade pack --hunts` instead, with its --problems and --seed-file."
)
@click.option(
    "--show-cases", is_flag=True, help="With --feedback: show the secret cases that fail, as small as possible."
)
def batch(
    submissions: Path,
    results: Path,
    accept_isolation: str | None,
    keep: str,
    never_lower: bool,
    keep_marks: bool,
    without: tuple[str, ...],
    hunts: bool,
    **options: Any,
) -> None:
    """Grade a class.

    SUBMISSIONS is a folder or archive with one folder per learner, or an unmodified Gradescope, Canvas or Moodle
    export. Results and a summary are written to RESULTS. Rerun the command to resume an interrupted batch; it grades
    only what is new or has changed.
    """
    from grader.batch import command
    from grader.batch.options import BatchOptions
    from grader.isolation.level import Level

    least = Level(accept_isolation or Level.STRICT)
    if hunts:
        _require_options_of_hunts(click.get_current_context())
        lines = _marked_hunts(submissions, results, least, **{name: options[name] for name in _TAKEN_BY_HUNTS})
    else:
        chosen = BatchOptions(
            **options,
            least=least,
            best=keep == "best",
            keeping="all" if keep_marks else "lower" if never_lower else "",
            without=tuple(word.replace("-", "_") for word in without),
        )
        lines = command.batch(submissions, results, chosen)
    for line in lines:
        click.echo(printable(line))


_TAKEN_BY_HUNTS = ("problems", "seed_file", "deadlines", "roster", "formats")
_OF_HUNTS = ("submissions", "results", "hunts", "accept_isolation", *_TAKEN_BY_HUNTS)


def _require_options_of_hunts(context: click.Context) -> None:
    """Raises UsageError if an option was given that --hunts does not have."""
    from commandline.errors import UsageError

    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
        if given and option.name not in _OF_HUNTS:
            raise UsageError(f"--hunts does not take {option.opts[0]}.")


def _marked_hunts(
    submissions: Path,
    results: Path,
    least: "Level",
    problems: str | None,
    seed_file: Path | None,
    deadlines: Path | None,
    roster: Path | None,
    formats: tuple[str, ...],
) -> Iterator[str]:
    from commandline.errors import UsageError
    from grader.batch import hunt_marks
    from grader.course import catalog
    from grader.course.seed import read_seed

    if seed_file is None:
        raise UsageError("--hunts needs --seed-file with the file that the hunts were handed out with.")
    chosen = catalog.select(problems) if problems else catalog.all_problems()
    options = hunt_marks.HuntOptions(chosen, read_seed(seed_file), least, deadlines, roster, formats)
    return hunt_marks.mark(submissions, results, options)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", help="Problems to include, such as 01-08,12 [default: all].")
@click.option(
    "--hunts",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Create N hunts instead, for learners who solved the problems.",
)
@click.option("--seed-file", type=click.Path(path_type=Path), help="With --hunts: the secret that chooses them.")
@click.option(
    "--learners",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --hunts: other hunts for each learner in FILE.",
)
@click.option(
    "--plays", is_flag=True, help="Include what `grade play` needs: trained weights, and the harness with its GPT."
)
@click.option(
    "--agents",
    metavar="FILE|none",
    help="Instructions for the learners' AI assistants [default: the course's, which ask them to tutor and not to "
    "solve].",
)
def pack(
    directory: Path,
    problems: str | None,
    hunts: int | None,
    seed_file: Path | None,
    learners: Path | None,
    plays: bool,
    agents: str | None,
) -> None:
    """Create the learners' bundle, without the solutions.

    DIRECTORY gets the pages, the stubs and the grader. `grade problem` works in it, because it also gets the
    references' recorded outputs for the public cases.
    """
    from commandline.errors import UsageError
    from grader.course import catalog
    from grader.handout import pack as pack_

    chosen = catalog.select(problems) if problems else catalog.all_problems()
    if hunts:
        from grader.course.seed import create_seed, read_seed
        from grader.handout import hunt_sheets

        if seed_file is None:
            raise UsageError("--hunts needs --seed-file; the file is created if needed, and marks the hunts later.")
        create_seed(seed_file)
        names = hunt_sheets.read_learners(learners) if learners else []
        for line in hunt_sheets.hand_out(directory, chosen, hunts, read_seed(seed_file), names):
            click.echo(printable(line))
        return
    if seed_file or learners:
        raise UsageError("--seed-file and --learners belong to --hunts.")
    try:
        text = "" if agents == "none" else Path(agents).read_text(encoding="utf-8") if agents else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{agents} {files.why_no_text(error)}.") from None
    for line in pack_.pack(directory, chosen, plays=plays, agents=text):
        click.echo(line)


@click.group()
def export() -> None:
    """Export the grader to a course system that runs it, or notebooks."""


@export.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", required=True, help="Problems to include, such as 01-08,12.")
@click.option(
    "--seed-file",
    type=click.Path(path_type=Path),
    help="File with a secret seed for the hidden cases [default: a new one].",
)
@click.option(
    "--reveal", type=click.Choice(REVEALS), default="advice", help="What learners are told, as in `grade batch`."
)
@click.option("--reveal-after-due", type=click.Choice(REVEALS), help="What Gradescope also shows after its due date.")
def gradescope(archive: Path, problems: str, seed_file: Path | None, reveal: str, reveal_after_due: str | None) -> None:
    """Create a Gradescope autograder.

    ARCHIVE is the zip file to upload. It contains the solutions; do not hand it out.
    """
    from grader.course import catalog
    from grader.handout import export as export_

    export_.gradescope(archive, catalog.select(problems), seed_file, reveal, reveal_after_due)
    click.echo(str(archive))


@export.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", required=True, help="Problems to include, such as 01-08,12.")
def github(directory: Path, problems: str) -> None:
    """Create a repository that grades itself on GitHub.

    DIRECTORY gets the learners' bundle, and a workflow of GitHub Actions that grades it after each push.
    """
    from grader.course import catalog
    from grader.handout import export as export_

    for line in export_.github(directory, catalog.select(problems)):
        click.echo(line)


@export.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--problems", metavar="LIST", required=True, help="Problems to include, such as 01-08,12.")
def classroom50(directory: Path, problems: str) -> None:
    """Create an autograder for Classroom 50.

    DIRECTORY is the folder CLASSROOM/autograders/ASSIGNMENT of your classroom50 repository. Learners can read what is
    published there, so it contains no solutions, and grades on the public cases.
    """
    from grader.course import catalog
    from grader.handout import export as export_

    for line in export_.classroom50(directory, catalog.select(problems)):
        click.echo(line)


@export.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--problems", metavar="LIST", help="Problems to include, such as 01-08,12 [default: all].")
@click.option(
    "--install",
    metavar="TEXT",
    help="What the first cell installs: arguments of pip, such as the address of a wheel [default: gpt-kata].",
)
def notebooks(directory: Path, problems: str | None, install: str | None) -> None:
    """Create a notebook for each problem, for Jupyter, VS Code and Colab.

    DIRECTORY gets a notebook with the page, the stub and a cell that grades. Notebooks that are already there are kept.
    """
    from grader.course import catalog
    from grader.handout import notebooks as notebooks_

    chosen = catalog.select(problems) if problems else catalog.all_problems()
    for line in notebooks_.export(directory, chosen, install):
        click.echo(line)


COMMANDS = (batch, pack, export)
