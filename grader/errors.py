"""The grader's own error. Those for users are in `commandline.errors`."""

from commandline.errors import CommandError


class CourseError(CommandError):
    """A problem of the course itself is unsound: its author must repair it."""
