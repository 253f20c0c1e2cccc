"""What can go wrong in a run, each with its exit code and one sentence for the person at the terminal."""

from commandline.errors import CommandError


class HarnessError(CommandError):
    """Root of our errors; by itself, our own fault or the machine's."""


class UsageError(HarnessError):
    """The person asked for something that cannot be done as asked."""

    exit_code = 2


class PieceError(HarnessError):
    """A piece of the workspace does not do what the harness needs of it."""

    exit_code = 1
