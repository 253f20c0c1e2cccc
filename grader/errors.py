"""The grader's own errors. Those for users are in `commandline.errors`."""

from commandline.errors import CommandError


class CourseError(CommandError):
    """A course is unsound: its author must repair the file that the message names."""

    exit_code = 2


class WorkerStartError(CommandError):
    """A worker did not start. Nothing of a submission has run, so this is not the learner's error."""


class SupersededError(CourseError):
    """A newer text was saved during a grading, which has no result. It is not for users: the newer text is graded."""


class ClosedError(CourseError):
    """The resident judge was closed during a grading. It is not for users: the program is ending."""
