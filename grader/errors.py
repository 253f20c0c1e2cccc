"""What can go wrong that is not the submission's doing, each with its exit code."""

from commandline.errors import CommandError


class GradeError(CommandError):
    """Root of our errors: the message is one sentence for the person at the terminal."""


class UsageError(GradeError):
    """The person asked for something that cannot be done as asked."""

    exit_code = 2


class CourseError(GradeError):
    """A problem of the course itself is unsound: an author must repair it."""
