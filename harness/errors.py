"""The harness's errors. Each carries an exit code and one sentence for the terminal."""

from commandline import errors


class HarnessError(errors.CommandError):
    """Root of the harness's errors. By itself it means an internal error or a problem with this machine (exit code
    3)."""


class UsageError(HarnessError, errors.UsageError):
    """The command, a setting or the data is not usable as given (exit code 2)."""

    exit_code = 2


class PieceError(HarnessError):
    """A piece of the workspace is broken (exit code 1)."""

    exit_code = 1
