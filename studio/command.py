"""`grade web`: opens the studio. Found by `grade` through an entry point."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8642, show_default=True, help="Port; another one if it is taken."
)
@click.option("--no-browser", is_flag=True, help="Print the address and do not open it.")
@click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs",
    show_default=True,
    help="Directory of all runs of the harness.",
)
@click.option(
    "--class",
    "results",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="RESULTS",
    help="Show the results of a class that `grade batch` writes to RESULTS, also while it runs.",
)
@click.pass_obj
def web(folder: str | None, port: int, no_browser: bool, runs: Path, results: Path | None) -> None:
    """Open the studio: read, write and grade in your browser.

    It grades each time you save, in the browser or in any other editor. Nothing leaves this machine. Ctrl-C ends it,
    and stops the trainings that it started, each with a checkpoint.
    """
    from grader.course import workspace
    from studio import server

    if results:
        server.serve_class(results, port, opens_browser=not no_browser)
    else:
        server.serve(workspace.find(folder), runs, port, opens_browser=not no_browser)
