"""The errors that a person at the terminal reads: one sentence each, and an exit code."""


class CommandError(Exception):
    """Root of all errors with a message for the user. Alone, it means an internal error or a fault of the machine."""

    exit_code = 3


class UsageError(CommandError):
    """The user asked for something that cannot be done as asked."""

    exit_code = 2
