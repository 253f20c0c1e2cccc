"""The roster of a class from a platform's names and roles, as the file that `grade batch --roster` reads."""

from collections.abc import Mapping
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import one_line
from grader.batch.tables import write_csv
from hosting.lti import claims as names
from hosting.lti.enrollments import Course, Enrollments
from hosting.lti.services import Member, ServiceError, Services

# The columns of a classroom's roster: no id in them is the platform's own number, which other exports have.
_COLUMNS = ("username", "name", "email")


async def write(file: Path, course: Course, services: Services, enrollments: Enrollments) -> int:
    """Replaces the roster by the learners whom the platform lists now. Returns how many they are.

    A learner is named as at the hub; one who has never signed in, as the hub will name them: by the platform's id in
    lower case. Raises UsageError, and leaves the file as it is, if the platform does not give a whole list.
    """
    try:
        members = await services.members(course)
    except ServiceError as error:
        raise UsageError(f"The roster {file} was not replaced: {error}.") from None
    learners = [member for member in members if names.is_learner(member.roles)]
    if not learners:
        raise UsageError(f"The roster {file} was not replaced: {course.platform} lists no learner of {course.title!r}.")
    known = enrollments.learners(course.platform)
    rows = sorted(_row(member, known) for member in learners)
    write_csv(file, _COLUMNS, rows)
    return len(rows)


def _row(member: Member, known: Mapping[str, str]) -> tuple[str, str, str]:
    return known.get(member.user, member.user.lower()), one_line(member.name), one_line(member.email)
