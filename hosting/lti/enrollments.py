"""Who is whom: the learners of the hub, the users of the platforms, and the courses from which they opened a link."""

import json
from dataclasses import dataclass

from hosting.lti.database import Database
from hosting.lti.launch import Launch, RefusedLaunchError


@dataclass(frozen=True)
class Course:
    """A course of a platform.

    Attributes:
        id: The number of the course here.
        platform: The name of the registration.
        title: The title, for people.
        line_items: The address of its columns in the gradebook; empty if the tool may not use it.
        memberships: The address of the list of its members; empty if the tool may not use it.
        scopes: What the tool may do in the gradebook.
    """

    id: int
    platform: str
    title: str
    line_items: str
    memberships: str
    scopes: tuple[str, ...]


class Enrollments:
    """The learners and courses of all launches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def remember(self, launch: Launch, learner: str) -> None:
        """Stores that the learner of this name at the hub is the user of a launch, and is in the course if the launch
        says so. What the launch does not say of the course's services stays as it was.

        A learner is one user forever, and a user one learner: who signs in with another's e-mail address must not get
        the other's marks. Raises RefusedLaunchError if somebody would change that.
        """
        with self._database.writing() as database:
            known = database.execute(
                "select learner, platform, user from learners where learner = ? or (platform = ? and user = ?)",
                (learner, launch.platform.name, launch.user),
            ).fetchall()
            if any(tuple(row) != (learner, launch.platform.name, launch.user) for row in known):
                raise RefusedLaunchError(
                    f"{learner!r} belongs to another account of {launch.platform.name}. Ask your teacher, who can see "
                    "whose it is."
                )
            database.execute(
                "insert or ignore into learners values (?, ?, ?)", (learner, launch.platform.name, launch.user)
            )
            if not launch.course:
                return
            (course,) = database.execute(
                "insert into courses (platform, course, title, line_items, memberships, scopes) "
                "values (?, ?, ?, ?, ?, ?) on conflict (platform, course) do update set title = excluded.title, "
                "line_items = iif(excluded.line_items = '', line_items, excluded.line_items), "
                "scopes = iif(excluded.line_items = '', scopes, excluded.scopes), "
                "memberships = iif(excluded.memberships = '', memberships, excluded.memberships) returning id",
                (
                    launch.platform.name, launch.course, launch.course_title, launch.line_items, launch.memberships,
                    json.dumps(launch.scopes),
                ),
            ).fetchone()  # fmt: skip
            if launch.is_learner:
                database.execute("insert or ignore into enrollments values (?, ?)", (learner, course))
            if launch.problem and launch.line_item:  # also of a link that a teacher made by hand
                column = (course, launch.problem, launch.line_item)
                database.execute("insert or ignore into columns values (?, ?, ?)", column)

    def forget(self, learner: str) -> bool:
        """Deletes what is stored of a learner: who it is at the platform, the courses, and the marks that were sent or
        wait. Returns whether there was anything."""
        with self._database.writing() as database:
            gone = [
                database.execute(f"delete from {table} where learner = ?", (learner,)).rowcount  # noqa: S608  of tables
                for table in ("marks", "enrollments", "learners")
            ]
        return any(gone)

    def courses(self) -> list[Course]:
        """Returns all courses from which somebody opened a link."""
        return [
            Course(
                row["id"], row["platform"], row["title"], row["line_items"], row["memberships"],
                tuple(json.loads(row["scopes"])),
            )
            for row in self._database.rows("select * from courses order by id")
        ]  # fmt: skip

    def course(self, number: int) -> Course:
        """Returns a course by its number."""
        return next(course for course in self.courses() if course.id == number)

    def courses_of(self, learner: str) -> list[int]:
        """Returns the numbers of the courses in which a learner gets marks."""
        query = "select course from enrollments where learner = ? order by course"
        return [row["course"] for row in self._database.rows(query, learner)]

    def enrolled(self) -> list[str]:
        """Returns the learners who get marks in some course."""
        return [row["learner"] for row in self._database.rows("select distinct learner from enrollments order by 1")]

    def user(self, learner: str) -> str:
        """Returns a learner's id at the platform; an empty text if the learner is not known."""
        row = self._database.row("select user from learners where learner = ?", learner)
        return row["user"] if row else ""

    def learners(self, platform: str) -> dict[str, str]:
        """Returns the names of the known learners by their id at a platform."""
        rows = self._database.rows("select user, learner from learners where platform = ?", platform)
        return {row["user"]: row["learner"] for row in rows}
