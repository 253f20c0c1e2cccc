"""The errors that end a command: a message of one sentence and an exit code."""


class CommandError(Exception):
    """The base of all errors with a message for the user. Raised itself, it means an internal error or a failing
    machine."""

    exit_code = 3


class UsageError(CommandError):
    """The command cannot do what the user asked for. The message gives the remedy."""

    exit_code = 2


class Interrupted(CommandError):  # noqa: N818  Ctrl-C is no error
    """Ctrl-C stopped the command; the message says what was saved."""

    exit_code = 130
