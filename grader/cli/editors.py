"""The commands that other programs start: `grade mcp` for an AI assistant, `grade lsp` for an editor."""

import importlib.util

import click

from commandline import invocation
from commandline.errors import UsageError
from grader.course import workspace


@click.command()
@click.pass_obj
def mcp(folder: str | None) -> None:
    """Serve your course to an AI assistant that tutors you.

    An assistant starts it and speaks the Model Context Protocol on standard input and output. It can read pages and
    grade your file; it cannot read a solution or edit your files. docs/tutors.md shows the setup.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(f"The package `mcp` is missing: `{invocation.install('gpt-kata[mcp]')}`.")
    from grader.editors import tutor_server

    tutor_server.serve(workspace.find(folder))


@click.command()
def lsp() -> None:
    """Serve your editor: the verdict at the line, at every save.

    An editor starts it and speaks the Language Server Protocol on standard input and output. docs/editors.md says how
    to set it up.
    """
    from grader.editors import language_server

    language_server.serve()


COMMANDS = (lsp, mcp)
