"""`grade web`: opens the studio. Found by `grade` through an entry point."""

import click


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8642, show_default=True, help="Port; another one if it is taken."
)
@click.option("--no-browser", is_flag=True, help="Print the address and do not open it.")
@click.pass_obj
def web(folder: str | None, port: int, no_browser: bool) -> None:
    """Open the studio: read, write and grade in your browser.

    It grades each time you save, in the browser or in any other editor. Nothing leaves this machine. Ctrl-C ends it.
    """
    from grader.course import workspace
    from studio import server

    server.serve(workspace.find(folder), port, opens_browser=not no_browser)
