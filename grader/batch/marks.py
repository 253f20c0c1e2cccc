"""The marks of a class from batch to batch. A mark that changes without a new submission is listed with the reason, or
kept."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.batch import identity, tasks
from grader.batch.deadlines import Deadlines
from grader.batch.records import Change, Mark, Regrade, whole
from grader.batch.results import Slot
from grader.batch.store import Store
from grader.course import catalog
from grader.judge import cache
from grader.problem import Problem

Keeping = Literal["", "lower", "all"]  # the marks that stay as they were published: none, higher ones, or all
MOST_SHOWN = 20  # changes on the terminal
GRADED = "graded"  # in place of points: what grading gives


@dataclass(frozen=True)
class Grounds:
    """The facts that decide marks in addition to the submissions. A change of one of them is a cause of changed marks.

    The name of a fact about one problem ends in a colon and the problem's name.
    """

    facts: Mapping[str, str]

    @classmethod
    def of(
        cls, problems: Sequence[Problem], seed: int, timeout: float | None, rules: Deadlines | None, *, best: bool
    ) -> "Grounds":
        """Returns the grounds of a batch."""
        points = {problem.name: {check.name: check.points for check in problem.checks} for problem in problems}
        return cls({
            "seed": cache.digest([str(seed)]), "timeout": str(timeout), **of_rules(rules, best=best),
            **{f"semantics:{problem.name}": tasks.semantics_of(problem.name) for problem in problems},
            **{f"points:{name}": json.dumps(given) for name, given in points.items()},
        })  # fmt: skip

    def remember(self, store: Store) -> None:
        """Stores them for the next batch."""
        for name, value in self.facts.items():
            store.remember(name, value)

    def changed(self, store: Store) -> "Causes":
        """Returns the facts that differ from those of the last batch that ended."""
        return Causes({
            name for name, value in self.facts.items() if (earlier := store.fact(name)) is not None and earlier != value
        })  # fmt: skip


def of_rules(rules: Deadlines | None, *, best: bool) -> dict[str, str]:
    """Returns the facts about which attempt counts, and what it counts."""
    return {"rules": cache.digest([repr(rules)]), "keep": "best" if best else "last"}


SAID = {
    "semantics": "the problem, the grader or a package changed",
    "points": "the points of its checks changed",
    "seed": "another seed",
    "timeout": "another time limit",
    "rules": "the deadlines changed",
    "keep": "another attempt counts, by --keep",
}


@dataclass(frozen=True)
class Causes:
    """The names of the facts that changed."""

    names: set[str]

    def graded_again(self) -> list[str]:
        """Returns the labels of the problems whose stored results no longer hold because of the course or its
        packages."""
        return sorted(ProblemName(name.partition(":")[2]).label for name in self.names if name.startswith("semantics:"))

    def because(self, problem: str) -> str:
        """Describes in a few words why a mark for a problem may have changed."""
        found = [said for name, said in SAID.items() if {name, f"{name}:{problem}"} & self.names]
        return "; ".join(found) or "graded again"


def publish(store: Store, causes: Causes, regrades: Iterable[Regrade], keeping: Keeping, *, best: bool) -> list[Change]:
    """Ends a batch: stores the marks, and returns those that changed without a new submission.

    `regrades` are those that this batch has carried out. A mark that is kept is stored as a decision, and also
    returned.
    """
    asked = {(regrade.learner, regrade.problem): regrade.because for regrade in regrades}
    at, changes = datetime.now(UTC).isoformat(timespec="seconds"), list[Change]()
    before, after = store.published(), store.marks()
    for slot in sorted(before.keys() & after.keys()):
        then, now = before[slot], after[slot]
        if then.mark == now.mark or _is_of_a_new_submission(store, slot, then, now, best=best):
            continue
        because = asked.get(slot) or causes.because(slot[1])
        kept = keeping == "all" or (keeping == "lower" and now.mark < then.mark)
        if kept:
            kind: Literal["kept", "least"] = "kept" if keeping == "all" else "least"
            store.decide(*slot, kind, then.mark, f"kept: {because}", now.attempt)
            because += f"; kept, grading gives {whole(now.mark):g}"
        changes.append(
            Change(at, *slot, then.verdict, then.mark, now.verdict, then.mark if kept else now.mark, because)
        )
    store.publish(changes)
    return changes


def _is_of_a_new_submission(store: Store, slot: Slot, then: Mark, now: Mark, *, best: bool) -> bool:
    """Returns whether the attempt that counts now has arrived since, and explains the mark: a further attempt cannot
    lower the best mark."""
    arrived = store.arrived(*slot)
    if now.attempt not in arrived or (best and now.mark < then.mark):
        return False
    return then.attempt not in arrived or arrived.index(now.attempt) > arrived.index(then.attempt)


def lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yields the changes for the terminal."""
    for change in changes[:MOST_SHOWN]:
        yield f"Mark: {said(change)}."
    if len(changes) > MOST_SHOWN:
        yield f"Mark: {len(changes) - MOST_SHOWN:,} more changed; changes.csv has all."


def said(change: Change) -> str:
    """Describes a change."""
    marks = f"{whole(change.mark_before):g} -> {whole(change.mark_after):g}"
    return f"{change.learner}, problem {ProblemName(change.problem).label}: {marks} ({change.because})"


def decide(folder: Path, word: str, number: str, points: str, because: str) -> str:
    """Sets a mark by hand, or resets it to the result of grading. Returns a sentence on the change. Raises
    UsageError."""
    if not because.strip():
        raise UsageError("--set needs --because with the reason, for the record.")
    problem = catalog.find(number)
    mark = None if points == GRADED else _number(points, problem)
    store = Store.existing(folder)
    try:
        learner = identity.named(store, word).learner
        slot = (learner, problem.name)
        now = store.marks().get(slot)
        if now is None:
            raise UsageError(f"{folder} has no result of {learner!r} for problem {problem.label}.")
        before = store.published().get(slot, now)
        if mark is None:
            store.undecide(*slot)
        else:
            store.decide(*slot, "hand", mark, f"by hand: {because}")
        after = store.marks()[slot]
        at = datetime.now(UTC).isoformat(timespec="seconds")
        change = Change(at, *slot, before.verdict, before.mark, after.verdict, after.mark, f"by hand: {because}")
        store.publish([change], only=slot)
        store.write_tables()
    finally:
        store.close()
    return f"{said(change)}. results.csv and changes.csv have it; the next `grade batch` writes it into the gradebooks."


def _number(points: str, problem: Problem) -> float:
    try:
        mark = float(points)
    except ValueError:
        raise UsageError(f"--set: {points!r} is neither a number of points nor the word {GRADED}.") from None
    if not 0 <= mark <= problem.points:
        raise UsageError(f"--set: problem {problem.label} has {problem.points} points, so {points} is no mark for it.")
    return mark
