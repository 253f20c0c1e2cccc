"""A group of commands that never shows a traceback for a person's mistake or the machine's."""

import os
import sys
from typing import Any

import click

from commandline.errors import CommandError
from commandline.spelling import nearest


class Commands(click.Group):
    """Names the nearest command when one is mistyped, and turns every error into one sentence and an exit code.

    `program` is the name that a person types. With `GRADE_DEBUG` or `HARNESS_DEBUG` set, a fault of ours keeps its traceback.
    """

    program = ""

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
            click.echo(f"{program}: {error.filename or 'this machine'}: {error.strerror or error}", err=True)
            sys.exit(CommandError.exit_code)
        except Exception as error:
            if os.environ.get(variable):
                raise
            click.echo(f"{program}: a fault of ours, not yours: {type(error).__name__}: {error}", err=True)
            click.echo(f"Set {variable}=1 to see where, and please report it.", err=True)
            sys.exit(CommandError.exit_code)
