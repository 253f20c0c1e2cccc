"""The reminders of practice in other commands: a sentence, and a calendar of the last year."""

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta

from commandline.text import counted
from grader.course import catalog, log
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.practice import schedule
from grader.practice.schedule import Memory

_WORK = {
    "graded",
    "taken",
    "reviewing",
    "reviewed",
    "hunting",
    "hunted",
}  # kinds of entries that make a day one of work
WEEKS = 53


def due_memories(space: Workspace) -> list[Memory]:
    """Returns the problems of the selected course that are due today. Imports `fsrs` only if something was passed."""
    names = set(catalog.names())
    entries = [entry for entry in space.entries() if entry.problem in names]
    return schedule.due(schedule.memories(entries).values())


def due_text(space: Workspace) -> str:
    """Describes how many reviews are due today and how to begin; empty if none is."""
    waiting = due_memories(space)
    return f"{counted(len(waiting), 'review')} due today: `grade review`." if waiting else ""


def days(entries: Iterable[Entry]) -> Counter[date]:
    """Returns the number of entries about work on each day."""
    return Counter(entry.day for entry in entries if entry.kind in _WORK)


def calendar(entries: Iterable[Entry], today: date | None = None) -> list[list[tuple[date, int]]]:
    """Returns the last 53 weeks, each from Monday on, as days with how much was practiced on them. Ends with today."""
    today = today or log.now().date()
    done = days(entries)
    monday = today - timedelta(days=today.weekday(), weeks=WEEKS - 1)
    weeks = []
    for week in range(WEEKS):
        row = [monday + timedelta(weeks=week, days=day) for day in range(7)]
        weeks.append([(day, done[day]) for day in row if day <= today])
    return weeks


def level(count: int) -> int:
    """Returns the shade in which a day is drawn, from 0 for no entries to 4."""
    return min((0, 1, 1, 2, 2, 2, 3, 3, 3, 3)[count] if count < 10 else 4, 4)


_SHADES = "·░▒▓█"
_DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()


def calendar_text(entries: Iterable[Entry], width: int) -> list[str]:
    """Returns the calendar as text, a column for each week; as many of the last weeks as fit."""
    weeks = calendar(entries)[-max(width - 5, 1) :]
    months = [" "] * (len(weeks) + 4)
    begins = [column for column, week in enumerate(weeks) if column and week[0][0].day <= 7]
    for column in begins if begins and begins[0] < 4 else [0, *begins]:  # the first month may be too short for its name
        month = f"{weeks[column][0][0]:%b}"
        months[column : column + len(month)] = month
    lines = [f"     {''.join(months).rstrip()}"]
    for day in range(7):
        row = "".join(_SHADES[level(week[day][1])] if day < len(week) else " " for week in weeks)
        lines.append(f"{_DAYS[day] if day % 2 == 0 else '':4} {row}".rstrip())
    return lines
