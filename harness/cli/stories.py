"""Stories on a terminal: wrapped at words while they are generated, the prompt set off, and one closing line."""

import sys
import unicodedata
from collections.abc import Iterable

import click

from commandline import terminal
from commandline.text import counted


class Wrapping:
    """Breaks a text at words while its parts come. Where the stream is no terminal, the text stays as it is.

    Only a word that is longer than a line is broken. Scripts without spaces may break between any two wide characters.
    """

    def __init__(self, *, err: bool = False) -> None:
        stream = sys.stderr if err else sys.stdout
        self._columns = min(terminal.width(stream), terminal.WIDEST_PROSE) if stream.isatty() else 0
        self._column = 0  # after what has been returned
        self._spaces = self._word = ""  # held back: whether they fit shows at the end of the word

    def add(self, text: str) -> str:
        """What can be shown of the text so far."""
        if not self._columns:
            return text
        return "".join(self._shown(character) for character in text)

    def _shown(self, character: str) -> str:
        if character == "\n":
            shown, self._column, self._spaces = self.rest(), 0, ""
            return f"{shown}\n"
        if character.isspace():
            shown = self.rest()
            self._spaces += character
            return shown
        self._word += character
        full = _cells(self._word) >= self._columns
        return self.rest() if full or _cells(character) > 1 else ""

    def rest(self) -> str:
        """The word that was held back, on a line of its own if it does not fit."""
        if not self._word:
            return ""
        cells = _cells(self._spaces + self._word)
        if self._column and self._column + cells > self._columns:
            shown, self._column = f"\n{self._word}", _cells(self._word)
        else:
            shown, self._column = f"{self._spaces}{self._word}", self._column + cells
        self._spaces = self._word = ""
        return shown


def _cells(text: str) -> int:
    """The columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def tell(parts: Iterable[str], prompt: str = "", *, apart: bool = False, err: bool = False) -> None:
    """Prints a text as its parts come, after its prompt, which is set off: underlined, and `apart` on lines of its
    own."""
    wrapping = Wrapping(err=err)
    click.echo(set_off(wrapping.add(prompt) + wrapping.rest(), err=err), nl=apart, err=err)
    if apart:
        wrapping = Wrapping(err=err)
    for part in parts:
        click.echo(wrapping.add(part), nl=False, err=err)
        (sys.stderr if err else sys.stdout).flush()
    click.echo(wrapping.rest(), err=err)


def set_off(prompt: str, *, err: bool = False) -> str:
    """A prompt as the reader can tell it from what the model wrote: underlined, where the terminal can do that."""
    colors = terminal.has_colors(sys.stderr if err else sys.stdout)
    return click.style(prompt, underline=True) if prompt and colors else prompt


def close(sentence: str) -> None:
    """Prints a closing line below a text, for a reader: not where stdout or stderr is no terminal."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        click.echo(click.style(terminal.fitted(sentence, sys.stderr), dim=terminal.has_colors(sys.stderr)), err=True)


def ending(tokens: int, most: int, what: str) -> str:
    """A sentence on how a text ended. `most` is the largest number of tokens, and `what` a story or an answer."""
    if tokens < most:
        return f"The {what} ends here, after {counted(tokens, 'token')}."
    return f"Cut after {counted(tokens, 'token')}; --max-tokens N allows more."
