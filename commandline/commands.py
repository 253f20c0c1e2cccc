"""The command group of both programs: it reports every error in one sentence."""

import atexit
import gc
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import click

from commandline import terminal
from commandline.errors import CommandError
from commandline.invocation import as_typed, command
from commandline.spelling import nearest
from commandline.start import INTERRUPTED, repeat_lost_interrupts, say_interrupted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Commands(click.Group):
    """A group that suggests the nearest command for a mistyped one and turns every exception into a message and an exit
    code.

    `program` is the name that the user types. The help shows the commands by `sections`. Packages add commands by entry
    points in the group `extensions`. With `GRADE_DEBUG` or `HARNESS_DEBUG` set, an internal error keeps its traceback.
    """

    program = ""
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    extensions = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._extensions()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None and (extension := self._extensions().get(cmd_name)):
            found = extension.load()
        return found

    def _extensions(self) -> "dict[str, EntryPoint]":
        if not self.extensions:
            return {}
        from importlib.metadata import entry_points  # takes as long as all of click

        return {entry.name: entry for entry in entry_points(group=self.extensions)}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = nearest(args[0], self.list_commands(ctx), 2) or self._told_of(ctx, args[0])
            if "problem" in self.commands and re.fullmatch(r"p?\d{1,2}|.*\.py", args[0]):
                close = [f"problem {args[0]}"]
            hint = f" Did you mean {' or '.join(f'`{self.program} {name}`' for name in close)}?" if close else ""
            raise click.UsageError(as_typed(f"There is no command {args[0]!r}.{hint}"), ctx) from error

    def _told_of(self, ctx: click.Context, word: str) -> list[str]:
        """Returns the commands whose line of help has this word, such as `web` for "studio". Empty if they are more
        than two."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        told = [
            name
            for name, each in found.items()
            if each
            and not each.hidden
            and word.lower() in re.findall(r"\w+", each.get_short_help_str(sys.maxsize).lower())
        ]
        return told if len(told) <= 2 else []

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The examples in the help stand in columns, after two spaces.
        self.help = re.sub(rf"(?<=  ){self.program}(?= )", lambda match: command(match[0]), self.help or "")
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        listed = {name for section in self.sections.values() for name in section}
        width = max(map(len, names))
        for title, section in {**self.sections, "More": [name for name in names if name not in listed]}.items():
            found = ((name, self.get_command(ctx, name)) for name in section)
            # The names are filled up, so that the texts of all sections begin in the same column.
            rows = [
                (name.ljust(width), each.get_short_help_str(sys.maxsize))
                for name, each in found
                if each and not each.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        repeat_lost_interrupts()
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            say_interrupted()
            ctx.exit(INTERRUPTED)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # Python looks for garbage when it ends, which among all the objects of JAX takes a quarter of a second.
        atexit.register(gc.freeze)
        program, variable = self.program, f"{self.program.upper()}_DEBUG"
        kwargs.setdefault("prog_name", command(program))
        if not terminal.has_colors():
            kwargs.setdefault("color", False)
        try:
            return super().main(*args, **kwargs)
        except CommandError as error:
            terminal.echo(f"{program}: {error}", err=True)
            sys.exit(error.exit_code)
        except OSError as error:
            reason = error.strerror or str(error)
            terminal.echo(f"{program}: {f'{error.filename}: ' if error.filename else ''}{reason}", err=True)
            sys.exit(CommandError.exit_code)
        except Exception as error:
            if os.environ.get(variable):
                raise
            terminal.echo(f"{program}: internal error (not your fault): {type(error).__name__}: {error}", err=True)
            terminal.echo(f"Please report it with its traceback, which {variable}=1 shows.", err=True)
            sys.exit(CommandError.exit_code)
