"""Groups: whose submission counts for whom. A table of the course system, or one with the columns `learner` and
`group`."""

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import one_line
from grader.batch.intake import Intake
from grader.batch.records import Person, folded

MOST_BYTES = 64 << 20
_GROUP = ("group", "group_name", "group name", "groupname")
_CANVAS = "canvas_user_id"
# The columns that identify a member, the most reliable first: in the export of Canvas' groups, in that of Moodle's, and
# in a teacher's own table.
_IDS = (_CANVAS, "user_id", "login_id", "identifier", "id number", "username", "email address", "email", "learner")
_NAMES = ("name", "full name", "learner")


@dataclass(frozen=True)
class Group:
    """A group and its members, by the ids that the table has."""

    name: str
    members: tuple[Person, ...]


def read(file: Path) -> list[Group]:
    """Reads a table of groups. Raises UsageError if it is none."""
    rows = _rows(file)
    columns = rows[0] if rows else {}
    if not any(name in columns for name in _GROUP) or not any(name in columns for name in _IDS):
        raise UsageError(
            f"The groups {file} need the columns learner and group, or must be an export of the groups of Canvas or "
            "Moodle."
        )
    groups: dict[str, list[Person]] = defaultdict(list)
    for row in rows:
        group, member = _first(row, _GROUP), _member(row)
        if group and member:
            groups[group].append(member)
    return [Group(name, tuple(members)) for name, members in groups.items()]


def _rows(file: Path) -> list[dict[str, str]]:
    """Reads the rows of the CSV file `file`, by column name in lower case. Raises UsageError if it is not one."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MOST_BYTES).decode("utf-8-sig")
        first = text.partition("\n")[0]
        table = [*csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))]
    except OSError as error:
        raise UsageError(f"The groups {file} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise UsageError(f"The groups {file} are not a CSV file in UTF-8.") from None
    return [
        {
            (name or "").strip().casefold(): (value or "").strip()
            for name, value in row.items()
            if isinstance(value, str)
        }
        for row in table
    ]


def _member(row: Mapping[str, str]) -> Person | None:
    """Returns the member that `row` names, or None if it names nobody."""
    ids = tuple(dict.fromkeys(row[name] for name in _IDS if row.get(name)))
    if not ids:
        return None
    name = _first(row, _NAMES) or ids[0]
    label = one_line(name if name == ids[0] else f"{name} ({ids[0]})")
    return Person(label, ids, tuple(filter(None, [row.get(_CANVAS, "")])))


def _first(row: Mapping[str, str], columns: Sequence[str]) -> str:
    """Returns the value of the first of `columns` that is not empty in `row`; empty if all are."""
    return next((row[name] for name in columns if row.get(name)), "")


def apply(groups: list[Group], intake: Intake) -> list[str]:
    """Gives each member of a group the submissions of all members. Returns notes."""
    learner_of = {folded(text): learner for learner, person in intake.people.items() for text in (learner, *person.ids)}
    notes = []
    added = []
    for group in groups:
        names = []
        for member in group.members:
            found = next((learner_of[folded(number)] for number in member.ids if folded(number) in learner_of), None)
            learner = found or member.learner
            intake.people[learner] = replace(intake.people.get(learner, Person(learner)).knowing(member))
            names.append(learner)
        own = [item for item in intake.items if item.learner in names]
        members = " and ".join(names)
        if not own:
            notes.append(f"the group {group.name!r} ({members}) handed in nothing")
        added += [replace(item, learner=name, members=members) for item in own for name in names]
        intake.items[:] = [item for item in intake.items if item.learner not in names]
    intake.items += added
    return notes
