"""The root of all errors that a person at the terminal is told of in one sentence."""


class CommandError(Exception):
    """Ends the command with its exit code: 1 not passed, 2 asked wrongly, 3 our own fault or the machine's."""

    exit_code = 3
