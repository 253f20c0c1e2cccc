"""The commands that look things up: the course as a book, the glossary, and the models of today."""

from pathlib import Path

import click

from commandline import invocation, terminal
from commandline.errors import UsageError


@click.command()
@click.option("--no-browser", is_flag=True, help="Print the path of its first page, and open nothing.")
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Write the book to DIR instead.")
def book(no_browser: bool, folder: Path | None) -> None:
    """Open the course as a book in your browser.

    All pages are there, with their drawings and formulas, and with hints that unfold. It needs no network, but the
    extra `book` of the course. The first time, and after an update of the pages, the book takes some seconds to build.
    """
    from grader.course import book as book_

    if not book_.is_available():
        raise UsageError("This copy of the course has no book; `grade show NN` prints a page.")
    if folder is not None and folder.exists() and not (_is_empty(folder) or (folder / "index.html").is_file()):
        raise UsageError(f"{folder} already exists and is not a book; choose a new or an empty folder.")
    target = folder or book_.cached()
    if folder is not None or not (target / "index.html").is_file():
        _require_mkdocs()
        click.echo("Building the book...", err=True)
        book_.build(target)
    if folder is None:
        book_.forget_others(target)
    start = (target / "index.html").resolve()
    click.echo(str(start))
    if not no_browser:
        import webbrowser

        webbrowser.open(start.as_uri())


@click.command()
@click.argument("word", nargs=-1)
def glossary(word: tuple[str, ...]) -> None:
    """Explain a word of the field, or list the words.

    Each word comes with the problem that teaches it.
    """
    from grader.course import glossary as glossary_

    if not glossary_.entries():
        raise UsageError("This course has no glossary.")
    if not word:
        terminal.echo(", ".join(each for entry in glossary_.entries() for each in entry.words) + ".")
        return
    entry = glossary_.find(" ".join(word))
    place = f" `grade show {entry.problem}` teaches it." if entry.taught_by else ""
    terminal.echo(f"{', '.join(entry.words)}: {entry.meaning}{place}")


@click.command()
@click.argument("name", nargs=-1)
@click.pass_obj
def models(folder: str | None, name: tuple[str, ...]) -> None:
    """Show what open models are made of, and tick what you know.

    Without NAME, all models are listed. A part is ticked when you have passed the problems that teach it.
    """
    from grader.course import models as models_
    from grader.course import workspace

    listed = models_.every()
    if not listed:
        raise UsageError("This course says nothing of other models.")
    passed = {each for each, standing in workspace.find(folder).standings().items() if standing.passed}
    if not name:
        width = max(len(model.name) for model in listed)
        for model in listed:
            click.echo(f"{model.name:{width}}  you know {model.known(passed)} of {len(model.parts)} parts")
        terminal.echo(f"`grade models {listed[0].name}` shows its parts.")
        return
    model = models_.find(" ".join(name))
    click.echo(click.style(model.name, bold=True))
    terminal.echo(model.source)
    for part in model.parts:
        taught = f"`grade show {part.problems[-1].label}` teaches it." if part.problems else "It is not taught here."
        tick = "✓" if part.is_known(passed) else "·"
        terminal.echo(f"{tick} {part.name}: {part.here}. {'' if part.is_known(passed) else taught}".rstrip())


def _require_mkdocs() -> None:
    """Raises UsageError if the packages that build the book are not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    for package in ("mkdocs-material", "mkdocstrings-python"):
        try:
            distribution(package)
        except PackageNotFoundError:
            raise UsageError(f"The package `{package}` is missing: `{invocation.install('gpt-kata[book]')}`.") from None


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


COMMANDS = (book, glossary, models)
