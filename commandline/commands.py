"""The command group of both programs: it reports every error in one sentence."""

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from commandline.errors import CommandError
from commandline.spelling import nearest


class Commands(click.Group):
    """A group that suggests the nearest command for a mistyped one and turns every exception into a message and an exit code.

    `program` is the name that the user types. Packages add commands by entry points in the group `extensions`. With
    `GRADE_DEBUG` or `HARNESS_DEBUG` set, an internal error keeps its traceback.
    """

    program = ""
    extensions = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._extensions()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in (found := self._extensions()):
            command = found[cmd_name].load()
        return command

    def _extensions(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.extensions)} if self.extensions else {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = nearest(args[0], self.list_commands(ctx), 2)
            hint = f" Did you mean {' or '.join(f'`{self.program} {name}`' for name in close)}?" if close else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx) from error

    def main(self, *args: Any, **kwargs: Any) -> Any:
        program, variable = self.program, f"{self.program.upper()}_DEBUG"
        try:
            return super().main(*args, **kwargs)
        except CommandError as error:
            click.echo(f"{program}: {error}", err=True)
            sys.exit(error.exit_code)
        except OSError as error:
            reason = error.strerror or str(error)
            click.echo(f"{program}: {f'{error.filename}: ' if error.filename else ''}{reason}", err=True)
            sys.exit(CommandError.exit_code)
        except Exception as error:
            if os.environ.get(variable):
                raise
            click.echo(f"{program}: internal error (not your fault): {type(error).__name__}: {error}", err=True)
            click.echo(f"Please report it with its traceback, which {variable}=1 shows.", err=True)
            sys.exit(CommandError.exit_code)
