"""Deadlines: which attempt of a learner counts, how late it is, and what that costs. Scores are kept raw and adjusted.

A learner's late days are spent in the order of the due dates, each only where it raises the score. Problems with the
same due date share them: two late days pay for everything that is due on that date and at most two days late.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch.records import folded
from grader.course import catalog
from grader.report.redacted import REVEALS, Reveal

_DAY = timedelta(days=1)
_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": _DAY, "week": timedelta(weeks=1)}
_DURATION = re.compile(rf"(\d{{1,4}}) ({'|'.join(_UNITS)})s?")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?%")
_SEVERAL = re.compile(r" and |[,;]")  # between the sections that a roster names together
_KEYS = ("timezone", "due", "grace", "late_days", "penalty", "extensions", "closes", "excused", "hand_in")
_KEYS_OF_A_HUB = ("attempts_a_day", "before_due", "after_due", "counts", "send_marks")
_KEYS_OF_AN_EXTENSION = ("learner", "problems", "time", "by", "at", "because")
_MOST_A_DAY = 100  # attempts at one problem, unless a teacher says fewer
_NOT_ACCEPTED = "not accepted, because it came after the problem closed"
HUNTS = "hunts"  # the name of the sheets of hunts, in place of a problem's
_EVERY = ""  # the key of what holds for all problems
_OTHERS = "others"  # the learners, or sections, that are not named
ALL = "all"  # the problems
EXTENSIONS = "extensions.yml"  # the name of a file beside that of the deadlines: a list, to which others may append

Dates = Mapping[str, datetime]  # by problem label; the key "" holds for all others


@dataclass(frozen=True)
class Attempt:
    """One submission of a learner for a problem, reduced to the facts that decide which one counts.

    Attributes:
        problem: The problem's name.
        id: Identifies the attempt among the learner's.
        number: The order of arrival.
        score: The points before any penalty.
        submitted: In UTC, or local to the course system if it has no zone; None if the export has no time.
        late: The export's own mark.
    """

    problem: str
    id: str
    number: int
    score: int
    submitted: datetime | None = None
    late: bool = False


@dataclass(frozen=True)
class Settled:
    """The attempt that counts for a problem.

    Attributes:
        id: The attempt.
        adjusted: The score after the penalty.
        lateness: A sentence on its lateness; empty if it was on time.
        times: When it was handed in and due, as far as that is known.
        excused: Whether the learner is excused from the problem, which then does not count.
    """

    id: str
    adjusted: float
    lateness: str
    times: str = ""
    excused: bool = False


@dataclass(frozen=True)
class Policy:
    """How learners hand in to the service of a hub. The rest of `grade batch` does not read it.

    Attributes:
        attempts_a_day: The most attempts of a learner at a problem on one day of the deadlines' time zone.
        before_due: How much of a result a learner reads until the due date, and where there is none; None means
            nothing.
        after_due: The same after the due date.
        best: Whether the best attempt counts, not the last.
        holds_marks: Whether marks go to a learning platform only when a teacher sends them, not after each grading.
    """

    attempts_a_day: int = _MOST_A_DAY
    before_due: Reveal | None = "advice"
    after_due: Reveal | None = "advice"
    best: bool = True
    holds_marks: bool = False


@dataclass(frozen=True)
class Deadlines:
    """The due and closing dates of problems, and the penalties for lateness. A problem that has closed accepts no
    submission.

    Attributes:
        timezone: The time zone of all dates.
        due: The due dates by problem label, where "" holds for all other problems.
        grace: How long after the due date a submission still counts as on time.
        late_days: The late days that each learner may spend without a penalty.
        penalty: The share of the score that each late day costs.
        extensions: By learner, then by problem label, where "" holds for all other problems. They move both dates.
        closes: The closing dates, by problem label like `due`.
        due_in: The due dates of sections that have their own: see `for_section`.
        closes_in: The closing dates of sections that have their own.
        own_late_days: The late days of the learners who have another number than `late_days`.
        excused: By learner, the labels of the problems that do not count, where "" means all.
        policy: How learners hand in to a hub.
    """

    timezone: tzinfo = UTC
    due: Dates = field(default_factory=dict)
    grace: timedelta = timedelta()
    late_days: int = 0
    penalty: Fraction = Fraction(0)
    extensions: Mapping[str, Mapping[str, timedelta]] = field(default_factory=dict)
    closes: Dates = field(default_factory=dict)
    due_in: Mapping[str, Dates] = field(default_factory=dict)
    closes_in: Mapping[str, Dates] = field(default_factory=dict)
    own_late_days: Mapping[str, int] = field(default_factory=dict)
    excused: Mapping[str, frozenset[str]] = field(default_factory=dict)
    policy: Policy = field(default=Policy(), repr=False)  # it changes no mark

    @property
    def sections(self) -> set[str]:
        """The sections that have dates of their own."""
        return {*self.due_in, *self.closes_in}

    def for_section(self, section: str) -> "Deadlines":
        """Returns the deadlines of a learner of this section. Of several sections, such as `A and B`, the latest date
        counts."""
        names = {folded(name) for name in (section, *_SEVERAL.split(section))}
        due, closes = (
            {**of_all, **_latest(dates for name, dates in of_sections.items() if folded(name) in names)}
            for of_all, of_sections in ((self.due, self.due_in), (self.closes, self.closes_in))
        )
        return replace(self, due=due, closes=closes)

    def extension(self, names: Iterable[str], problem: str) -> timedelta:
        """Returns the extension of a learner for a problem. `names` are the learner's name and ids; the longest one
        counts."""
        label = _label(problem)
        extensions = {folded(name): row for name, row in self.extensions.items()}
        own = [extensions[folded(name)] for name in names if folded(name) in extensions]
        return max((row.get(label, row.get(_EVERY, timedelta())) for row in own), default=timedelta())

    def due_for(self, names: Iterable[str], problem: str) -> datetime | None:
        """Returns the due date of a problem for a learner, with extensions. None if it has none."""
        due = self.due.get(_label(problem), self.due.get(_EVERY))
        return due and due + self.extension(names, problem)

    def closes_for(self, names: Iterable[str], problem: str) -> datetime | None:
        """Returns the time when a problem closes for a learner, with extensions. None if it does not close."""
        closes = self.closes.get(_label(problem), self.closes.get(_EVERY))
        return closes and closes + self.extension(names, problem)

    def is_accepted(self, names: Iterable[str], attempt: Attempt) -> bool:
        """Returns whether an attempt came before its problem closed. Without a time, nothing shows that it did not."""
        closes = self.closes_for(names, attempt.problem)
        return closes is None or attempt.submitted is None or self._local(attempt.submitted) <= closes

    def is_excused(self, names: Iterable[str], problem: str) -> bool:
        """Returns whether a learner is excused from a problem."""
        own = {folded(name) for name in names}
        labels = (labels for name, labels in self.excused.items() if folded(name) in own)
        return bool(frozenset[str]().union(*labels) & {_EVERY, _label(problem)})

    def late_days_of(self, names: Iterable[str]) -> int:
        """Returns the number of late days that a learner may spend."""
        own = {folded(name) for name in names}
        return max((days for name, days in self.own_late_days.items() if folded(name) in own), default=self.late_days)

    def days_late(self, names: Sequence[str], attempt: Attempt) -> int:
        """Returns the late days of an attempt: each started day after the due date, unless it is within the grace
        period.

        A day is over when 24 hours have passed and the clock shows the due hour again: when the clocks change, these
        differ. An attempt that the export marks as late, without a time, counts as one day late, unless the learner has
        an extension.
        """
        due = self.due_for(names, attempt.problem)
        if due is None:
            return 0
        if attempt.submitted is None:
            return int(attempt.late and not self.extension(names, attempt.problem))
        submitted = self._local(attempt.submitted)
        late = submitted.astimezone(UTC) - due.astimezone(UTC)
        by_clock = submitted.replace(tzinfo=None) - self._local(due).replace(tzinfo=None)
        return max(1, -(-min(late, by_clock) // _DAY)) if late > max(self.grace, timedelta()) else 0

    def times(self, names: Sequence[str], attempt: Attempt) -> str:
        """Describes when an attempt was handed in, when it was due and when the problem closes, in the time zone of the
        deadlines.

        Empty if the problem has neither date.
        """
        due, closes = self.due_for(names, attempt.problem), self.closes_for(names, attempt.problem)
        parts = [f"handed in {_minute(self._local(attempt.submitted))}"] if attempt.submitted else []
        parts += [f"due {_minute(self._local(due))}"] if due else []
        parts += [f"closes {_minute(self._local(closes))}"] if closes else []
        return f"{', '.join(parts)} ({self.timezone})" if due or closes else ""

    def __str__(self) -> str:
        """Returns the rules in words, without the rules for single learners, which are private."""
        rules = [f"due {self._in_words(self.due) or 'by section'} ({self.timezone})"]
        rules += [f"due in {name}: {self._in_words(dates)}" for name, dates in self.due_in.items()]
        rules += [f"closing {self._in_words(self.closes)}"] if self.closes else []
        rules += [f"closing in {name}: {self._in_words(dates)}" for name, dates in self.closes_in.items()]
        rules += [f"grace {self.grace.total_seconds() / 60:g} minutes"] if self.grace else []
        rules += [f"{counted(self.late_days, 'late day')} for each learner"] if self.late_days else []
        rules += [f"{float(100 * self.penalty):g}% off for each further day"] if self.penalty else []
        return ", ".join(rules)

    def _in_words(self, dates: Dates) -> str:
        moments: dict[datetime, list[str]] = {}
        for label, moment in dates.items():
            moments.setdefault(moment, []).append(label)
        return "; ".join(
            f"{', '.join(labels)}: {_minute(self._local(moment))}".removeprefix(": ")
            for moment, labels in moments.items()
        )

    def _local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.timezone) if moment.tzinfo else moment.replace(tzinfo=self.timezone)

    def adjusted(self, score: int, days: int) -> float:
        """Returns the score after the penalty for this many late days, in hundredths of a point, never below 0."""
        return float(round(score * max(Fraction(0), 1 - days * self.penalty), 2))


def settle(
    attempts: Sequence[Attempt], names: Sequence[str], deadlines: Deadlines | None, *, best: bool
) -> dict[str, Settled]:
    """Returns the attempt that counts for each problem of one learner: the best one after the penalty, or the last one.

    `names` are the learner's name and ids. `deadlines` are those of the learner's section. If every attempt at a
    problem came after it had closed, the score is 0.
    """
    rules = deadlines or Deadlines()
    by_problem: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_problem.setdefault(attempt.problem, []).append(attempt)
    by_due: dict[datetime | None, list[list[Attempt]]] = {}
    left, settled, excused = rules.late_days_of(names), dict[str, Settled](), set[str]()
    for problem, own in by_problem.items():
        if rules.is_excused(names, problem):
            excused.add(problem)
            accepted = own
        else:
            accepted = [attempt for attempt in own if rules.is_accepted(names, attempt)]
        if not accepted:
            newest = max(own, key=_order)
            settled[problem] = Settled(newest.id, 0.0, _NOT_ACCEPTED, rules.times(names, newest))
            continue
        if not best:
            accepted = [max(accepted, key=_order)]
        by_due.setdefault(rules.due_for(names, problem), []).append(accepted)
    for due in sorted(by_due, key=lambda due: (due is not None, due and due.timestamp())):
        group = by_due[due]
        days = {
            attempt.id: 0 if attempt.problem in excused else rules.days_late(names, attempt)
            for own in group
            for attempt in own
        }
        # The fewest late days that give the highest total. More than an attempt's own change nothing.
        totals = {
            spent: sum(_value(rules, attempt, days, spent)[0] for attempt in _best(rules, group, days, spent))
            for spent in {0, *(min(late, left) for late in days.values())}
        }
        spent = max(totals, key=lambda spent: (totals[spent], -spent))
        for attempt in _best(rules, group, days, spent):
            adjusted, late = _value(rules, attempt, days, spent)[0], days[attempt.id]
            lateness = _lateness(rules, attempt, late, min(spent, late))
            times = rules.times(names, attempt)
            settled[attempt.problem] = Settled(attempt.id, adjusted, lateness, times, attempt.problem in excused)
        left -= spent
    return settled


def _label(problem: str) -> str:
    return problem if problem == HUNTS else ProblemName(problem).label


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _order(attempt: Attempt) -> tuple[float, int]:
    """Returns a sort key: the order in which a learner submitted."""
    return (attempt.submitted.timestamp() if attempt.submitted else 0.0, attempt.number)


def _best(rules: Deadlines, group: Sequence[Sequence[Attempt]], days: Mapping[str, int], spent: int) -> list[Attempt]:
    """Returns the best attempt for each problem of a group if this many late days are spent on it; of equal ones the
    newest."""
    return [max(own, key=lambda attempt: (*_value(rules, attempt, days, spent), _order(attempt))) for own in group]


def _value(rules: Deadlines, attempt: Attempt, days: Mapping[str, int], spent: int) -> tuple[float, int, int]:
    late = days[attempt.id]
    return rules.adjusted(attempt.score, max(0, late - spent)), attempt.score, -late


def _lateness(rules: Deadlines, attempt: Attempt, late: int, spent: int) -> str:
    if not late:
        return "marked as late by the course system" if attempt.late and not rules.due else ""
    parts = [f"{counted(late, 'day')} late"]
    if attempt.submitted is None:
        parts = ["marked as late by the course system, counted as 1 day"]
    if spent:
        parts.append(f"{counted(spent, 'late day')} spent")
    if late > spent and rules.penalty:
        parts.append(f"{float(min(Fraction(100), (late - spent) * rules.penalty * 100)):g}% off")
    return ", ".join(parts)


def read(file: Path) -> Deadlines:
    """Returns the deadlines in a YAML file, with the extensions in the file beside it, if there is one. Raises
    UsageError, which names the line or the key."""
    rules = _read(file, "deadlines", _deadlines)
    more = file.with_name(EXTENSIONS)
    return _read(more, "extensions", lambda rows: _extended(rules, rows)) if more.is_file() else rules


def _read(file: Path, what: str, decode: Callable[[Any], Deadlines]) -> Deadlines:
    try:
        # Without a type for scalars: YAML 1.1 reads the id 0017 as 15 and 23:59 as 1439.
        table = yaml.load(file.read_text(encoding="utf-8-sig"), yaml.BaseLoader)  # noqa: S506  makes texts and lists
    except OSError as error:
        raise UsageError(f"The {what} {file} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"The {what} {file} are not valid YAML: {' '.join(str(error).split())}.") from None
    try:
        return decode(table)
    except _InvalidError as error:
        raise UsageError(f"{file}: {' '.join(str(error).split())}") from None


def extension_line(learner: str, problems: str, time: str, **about: str) -> str:
    """Returns a line for the file of extensions. `problems` is a list such as `01-03`, or `all`, `time` a duration.
    Raises UsageError."""
    row = {"learner": learner, "problems": problems, "time": time, **about}
    try:
        _extended(Deadlines(), [row])
    except _InvalidError as error:
        raise UsageError(str(error)) from None
    return f"- {json.dumps(row, ensure_ascii=False)}\n"  # JSON is YAML


def _extended(rules: Deadlines, rows: Any) -> Deadlines:
    """Returns the deadlines with further extensions. Each replaces an earlier one of the learner for the problem."""
    extensions = {learner: dict(own) for learner, own in rules.extensions.items()}
    names = {folded(learner): learner for learner in extensions}
    for row in rows if isinstance(rows, list) else [rows] if rows else []:
        if not isinstance(row, dict) or not {"learner", "problems", "time"} <= row.keys() <= set(_KEYS_OF_AN_EXTENSION):
            raise _InvalidError(f"{row} is not an extension, such as `- {{learner: bob, problems: 01, time: 2 days}}`.")
        key = f"extension of {row['learner']}"
        labels = {_EVERY} if row["problems"] == ALL else _labels(key, row["problems"])
        own = extensions.setdefault(names.setdefault(folded(str(row["learner"])), str(row["learner"])), {})
        own.update(dict.fromkeys(labels, _duration(key, row["time"])))
    return replace(rules, extensions=extensions)


class _InvalidError(Exception):
    """A value is not valid. The message is a sentence."""


def _deadlines(table: Any) -> Deadlines:
    if not isinstance(table, dict) or "due" not in table:
        raise _InvalidError("`due` is missing; write, for example, `due: 2026-11-02 23:59`.")
    if unknown := sorted(set(table) - set(_KEYS)):
        raise _InvalidError(f"`{unknown[0]}` is not a setting; the settings are {', '.join(_KEYS)}.")
    try:
        timezone = ZoneInfo(table.get("timezone", "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise _InvalidError(f"timezone: {table['timezone']} is not a time zone, such as Europe/Berlin.") from None
    due, due_in = _dates("due", table["due"], timezone)
    closes, closes_in = _dates("closes", table.get("closes") or {}, timezone)
    late_days = table.get("late_days", "0")
    if isinstance(late_days, dict):
        own_late_days = {str(learner): _whole(f"late_days: {learner}", days) for learner, days in late_days.items()}
    else:
        own_late_days = {_OTHERS: _whole("late_days", late_days)}
    rules = Deadlines(
        timezone,
        due,
        _duration("grace", table.get("grace", "0 days")),
        own_late_days.pop(_OTHERS, 0),
        _percent("penalty", table.get("penalty", "0%")),
        {
            learner: {
                label: _duration(f"extensions: {learner}", text)
                for label, text in _by_problem(f"extensions: {learner}", value).items()
            }
            for learner, value in _by_learner(table, "extensions", "2 days")
        },
        closes,
        due_in,
        closes_in,
        own_late_days,
        {
            learner: frozenset({_EVERY}) if value == ALL else _labels(f"excused: {learner}", value)
            for learner, value in _by_learner(table, "excused", f"01-03, or {ALL}")
        },
        _policy(table.get("hand_in") or {}),
    )
    _require_due_before_closing(rules)
    return rules


def _policy(table: Any) -> Policy:
    """Returns the rules for handing in to a hub. Once a learner has read something, it is known: less cannot follow."""
    if not isinstance(table, dict):
        raise _InvalidError("hand_in: write settings below it, such as `attempts_a_day: 5`.")
    if unknown := sorted(set(table) - set(_KEYS_OF_A_HUB)):
        raise _InvalidError(f"hand_in: `{unknown[0]}` is not a setting; the settings are {', '.join(_KEYS_OF_A_HUB)}.")
    a_day = _whole("hand_in: attempts_a_day", table.get("attempts_a_day", str(_MOST_A_DAY)))
    levels = ("nothing", *REVEALS)
    before, after = table.get("before_due", levels[-1]), table.get("after_due", levels[-1])
    for key, level in (("before_due", before), ("after_due", after)):
        if level not in levels:
            raise _InvalidError(f"hand_in: {key}: {level} is not a level; the levels are {', '.join(levels)}.")
    if levels.index(after) < levels.index(before):
        raise _InvalidError(f"hand_in: after_due: {after} reveals less than before_due: {before}.")
    counts = table.get("counts", "best")
    if counts not in ("best", "last"):
        raise _InvalidError(f"hand_in: counts: {counts} is not best or last.")
    sending = table.get("send_marks", "on_request" if before == "nothing" else "after_grading")
    if sending not in ("after_grading", "on_request"):
        raise _InvalidError(f"hand_in: send_marks: {sending} is not after_grading or on_request.")
    if before == "nothing" and sending == "after_grading":
        raise _InvalidError(f"hand_in: send_marks: {sending} shows marks that before_due: {before} hides.")
    by_name: dict[str, Reveal | None] = {"nothing": None, **{level: level for level in REVEALS}}
    return Policy(
        min(a_day, _MOST_A_DAY), by_name[before], by_name[after], counts == "best", sending == "on_request"
    )  # fmt: skip


def _require_due_before_closing(rules: Deadlines) -> None:
    for section in ("", *sorted(rules.sections)):
        own = rules.for_section(section)
        for label in sorted({*own.due, *own.closes}):
            due, closes = (dates.get(label, dates.get(_EVERY)) for dates in (own.due, own.closes))
            if due and closes and closes < due:
                place = ": ".join(filter(None, ("closes", label, section)))
                raise _InvalidError(f"{place}: {_minute(closes)} is before the due date, {_minute(due)}.")


def _by_learner(table: Mapping[str, Any], key: str, example: str) -> list[tuple[str, Any]]:
    rows = table.get(key) or {}
    if not isinstance(rows, dict):
        raise _InvalidError(f"{key}: write a line for each learner, such as `ada: {example}`.")
    return [(str(learner), value) for learner, value in rows.items()]


def _dates(key: str, value: Any, timezone: tzinfo) -> tuple[Dates, Mapping[str, Dates]]:
    """Returns the dates for all sections but those that have their own, and these by section."""
    of_all, of_sections = dict[str, datetime](), dict[str, dict[str, datetime]]()
    for label, date in _by_problem(key, value).items():
        if not isinstance(date, dict):
            of_all[label] = _moment(key, date, timezone)
            continue
        for section, text in date.items():
            own = of_all if section == _OTHERS else of_sections.setdefault(str(section), {})
            own[label] = _moment(f"{key}: {label}: {section}", text, timezone)
    return of_all, of_sections


def _latest(dates: Iterable[Dates]) -> Dates:
    latest: dict[str, datetime] = {}
    for each in dates:
        latest |= {label: max(date, latest.get(label, date)) for label, date in each.items()}
    return latest


def _by_problem(key: str, value: Any) -> dict[str, Any]:
    """Returns the values by problem label, from one value for all problems or a table by problems, such as `01-03`."""
    if not isinstance(value, dict):
        return {_EVERY: value}
    return {label: text for words, text in value.items() for label in sorted(_labels(key, words))}


def _labels(key: str, words: Any) -> frozenset[str]:
    if words == HUNTS:
        return frozenset({HUNTS})
    if not isinstance(words, str) or not words:
        raise _InvalidError(f"{key}: {words} does not name problems, as 01-03 does.")
    try:
        return frozenset(problem.label for problem in catalog.select(words))
    except UsageError as error:
        raise _InvalidError(f"{key}: {error}") from None


def _moment(key: str, value: Any, timezone: tzinfo) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _InvalidError(f"{key}: {value} is not a time, such as 2026-11-02 23:59.") from None
    if len(value.strip()) <= len("2026-11-02"):  # a date alone means all of that day
        moment = datetime.combine(moment, time.max)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone)


def _duration(key: str, value: Any) -> timedelta:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        hint = " Name who is excused under `excused`." if value == "excused" else ""
        raise _InvalidError(f"{key}: {value} is not a duration, such as 15 minutes, 12 hours or 2 days.{hint}")
    return int(match[1]) * _UNITS[match[2]]


def _whole(key: str, value: Any) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,4}", value):
        raise _InvalidError(f"{key}: {value} is not a whole number, such as 3.")
    return int(value)


def _percent(key: str, value: Any) -> Fraction:
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if not match or Fraction(match[1]) > 100:
        raise _InvalidError(f"{key}: {value} is not a percentage of the score for each late day, such as 10%.")
    return Fraction(match[1]) / 100
