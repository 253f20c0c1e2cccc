"""What a learner reads of the own attempts: when each arrived, and as much of its result as the teacher wants."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from commandline.problem_name import ProblemName
from grader.batch.deadlines import Attempt
from grader.batch.hand_ins import HandIn
from grader.batch.records import Record
from grader.report.redacted import Reveal
from hosting.class_folder import ClassFolder, Dates
from hosting.inbox import Inbox


def receipt(hand_in: HandIn, inbox: Inbox, dates: Dates) -> dict[str, Any]:
    """Returns the answer to a learner who has handed in, as JSON values: the number of the attempt, and a sentence."""
    number = 1 + inbox.of(hand_in.learner, hand_in.problem).index(hand_in)
    rules, names = dates.rules, dates.names
    attempt = Attempt(hand_in.problem, hand_in.id, number, 0, hand_in.received)
    due = rules.due_for(names, hand_in.problem)
    said = f"Attempt {number} at problem {ProblemName(hand_in.problem).label}, received "
    said += f"{hand_in.received.astimezone(rules.timezone):%Y-%m-%d %H:%M:%S}"
    if due:
        said += f", due {due.astimezone(rules.timezone):%Y-%m-%d %H:%M:%S}"
    said += f" ({rules.timezone})."
    if not rules.is_accepted(names, attempt):
        said += " The problem has closed."
    elif rules.days_late(names, attempt):
        said += " It is late."
    return {
        "id": hand_in.id,
        "problem": hand_in.problem,
        "attempt": number,
        "received": hand_in.received.isoformat(),
        "due": due.astimezone(UTC).isoformat() if due else "",
        "said": said,
    }


def attempts(of: ClassFolder, inbox: Inbox, learner: str, problem: str, dates: Dates) -> list[dict[str, Any]]:
    """Returns the attempts of a learner at a problem, as JSON values: the receipt of each with its `result`, which is
    None until it is graded, or if learners read nothing yet."""
    own = inbox.of(learner, problem)
    level, found = _level(problem, dates), dict[str, dict[str, Any]]()
    if level and own:
        found = _results(of, of.person(learner).learner, problem, level)
    return [{**receipt(one, inbox, dates), "result": found.get(one.received.isoformat())} for one in own]


def _level(problem: str, dates: Dates) -> Reveal | None:
    """Returns how much a learner reads of a result now."""
    due, policy = dates.rules.due_for(dates.names, problem), dates.rules.policy
    return policy.after_due if due and datetime.now(UTC) > due else policy.before_due


def _results(of: ClassFolder, learner: str, problem: str, level: Reveal) -> dict[str, dict[str, Any]]:
    """Returns the results by the time of the attempt. That of the attempt that counts has the checks."""
    try:
        with of.stored() as stored:
            if stored is None:
                return {}
            rows = stored.attempts(learner, problem)
            counted = stored.record(learner, problem)
    except sqlite3.Error:
        return {}  # a batch is writing; the next look finds them
    found = {row.submitted: {"verdict": row.verdict, "score": row.score, "points": row.points} for row in rows}
    if counted and counted.submitted in found:
        found[counted.submitted] |= _report(counted.told(level))
    return found


def _report(record: Record) -> dict[str, Any]:
    report = record.report
    idea = report.misconception if report else None
    checks: Sequence[Any] = report.checks if report else ()
    return {
        "counts": True,
        "mark": record.mark,
        "late": record.late,
        "checks": [
            {"name": check.name, "passed": check.passed, "points": check.points, "message": check.message}
            for check in checks
        ],
        "misconception": idea.name if idea else "",
        "advice": idea.says if idea else "",
    }
