"""The grader's own errors. Those for users are in `commandline.errors`."""

from commandline.errors import CommandError


class CourseError(CommandError):
    """A problem of the course itself is unsound: its author must repair it."""


class WorkerStartError(CommandError):
    """A worker did not start. Nothing of a submission has run, so this is not the learner's error."""


class ClosedError(CourseError):
    """The resident judge was closed during a grading. It is not for users: the program is ending."""
