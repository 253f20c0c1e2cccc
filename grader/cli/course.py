"""The commands of `grade` about courses: make one of your own, and list those that there are."""

from pathlib import Path

import click

from commandline import terminal


@click.group()
def course() -> None:
    """Make a course of your own, or see which are installed."""


@course.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--title", help="Title of the course [default: the words of DIRECTORY].")
def new(directory: Path, title: str | None) -> None:
    """Create a course with one example problem.

    DIRECTORY gets problems/, solutions/, tests/ and course.toml, which says what the course consists of. `grade
    --course DIRECTORY verify` proves that it is sound.
    """
    from grader.course import scaffold
    from grader.handout.pack import new_folder

    with new_folder(directory) as folder:
        paths = scaffold.create_course(folder, directory.resolve().name, title)
    for path in paths:
        click.echo(f"new   {directory / path}")
    click.echo()
    terminal.echo(
        f"Next: `grade --course {directory} verify` checks the course, `grade --course {directory} new SLUG` adds a "
        f"problem, and `grade --course {directory} start` makes a workspace, which stays with this course."
    )


@course.command(name="list")
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List the installed courses, and say which one is selected."""
    from commandline.errors import CommandError
    from commandline.text import counted
    from grader.course import course as course_
    from grader.course import selection, workspace

    top, chosen = ctx.find_root(), list[Path]()
    try:
        selection.select(top.params["course"], workspace.find(top.obj).course)
        chosen.append(selection.selected().root)
    except CommandError as error:
        terminal.echo(f"None is selected: {error}")
    for root in dict.fromkeys([*selection.installed().values(), *chosen]):
        try:
            found = course_.read(root)
            about = f"{found.title}, {counted(len(found.problems), 'problem')}{', private' if found.private else ''}"
        except CommandError as error:
            about = f"cannot be used: {error}"
        terminal.echo(f"{'*' if root in chosen else ' '} {selection.name_of(root):20}  {about}", indent=24)


@course.command(name="schema")
def schema_() -> None:
    """Print the JSON schema of course.toml, for an editor that checks it."""
    import json

    from grader.course.course import schema

    click.echo(json.dumps(schema(), indent=2))


COMMANDS = (course,)
