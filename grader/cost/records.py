"""A learner's records: the attempts that were counted, the best of each figure among those that passed, and the front
of operations against memory. All of it is derived from the log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.cost import bill as bill_
from grader.cost.bill import Bill
from grader.cost.figures import COMPARED, PEAK, WORK, Figure, compared
from grader.course import log
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.problem import Problem


@dataclass(frozen=True)
class Counted:
    """An attempt that was counted.

    Attributes:
        entry: Its entry in the log.
        figures: Its compared figures by name.
        passed: Whether the same text passed, other than by its core alone.
    """

    entry: Entry
    figures: Mapping[str, int]
    passed: bool

    def beats(self, other: "Counted", figures: Iterable[Figure] = (WORK, PEAK)) -> bool:
        """Returns whether it is better in one of these figures, and not worse in any."""
        pairs = [(self.figures[each.name], other.figures[each.name]) for each in figures]
        return all(own <= its for own, its in pairs) and any(own < its for own, its in pairs)


def counted(entries: Iterable[Entry], problem: Problem) -> list[Counted]:
    """Returns the attempts at a problem that were counted on the run that is counted now, the oldest first."""
    own = [entry for entry in entries if entry.problem == problem.name]
    if not any(entry.kind == log.COUNTED for entry in own):
        return []
    passed = log.passed_texts(own)
    about = bill_.described(problem)
    found = []
    for entry in own:
        figures = entry.facts.get("figures")
        if entry.kind == log.COUNTED and entry.text("run") == about and isinstance(figures, dict):
            sound = {name: value for name, value in figures.items() if type(value) is int and value >= 0}
            if all(each.name in sound for each in COMPARED):
                found.append(Counted(entry, sound, entry.text("digest") in passed))
    return found


def best(attempts: Sequence[Counted]) -> dict[str, Counted]:
    """Returns the first attempt with the lowest value of each figure, by the figure's name, among those that passed."""
    passed = [each for each in attempts if each.passed]
    if not passed:
        return {}
    found = {figure.name: min(passed, key=lambda each: each.figures[figure.name]) for figure in COMPARED}
    return {name: each for name, each in found.items() if any(other.figures[name] for other in passed)}


def front(attempts: Sequence[Counted]) -> list[Counted]:
    """Returns the attempts that passed and that none beats in operations and memory, each pair of figures once."""
    passed = [each for each in attempts if each.passed]
    alone = [each for each in passed if not any(other.beats(each) for other in passed)]
    return list({(each.figures[WORK.name], each.figures[PEAK.name]): each for each in reversed(alone)}.values())[::-1]


def note(space: Workspace, problem: Problem, bill: Bill, digest: str) -> str:
    """Notes a count of the workspace's file in the log, unless the same text has been counted. Returns what is new, in
    a sentence; empty if nothing is. Raises UsageError."""
    before = counted(space.entries(), problem)
    figures = compared(bill.figures)
    known = [each for each in before if each.entry.text("digest") == digest]
    if any(each.figures == figures for each in known):
        return ""
    run = bill_.described(problem)
    space.note(log.entry(log.COUNTED, problem.name, digest=digest, run=run, figures=figures, jax=bill.counted_with))
    return said([each for each in before if each.passed], counted(space.entries(), problem)[-1])


def said(before: Sequence[Counted], new: Counted) -> str:
    """Returns a sentence on a new attempt: its records, or its place on the front. `before` are those that passed
    before."""
    if not new.passed:
        return "It sets no record: this text has not passed as a whole."
    if not before:
        return ""
    lower = [
        f"{each.title}, {new.figures[each.name]:,} after {least:,}"
        for each in COMPARED
        if new.figures[each.name] < (least := min(old.figures[each.name] for old in before))
    ]
    if lower:
        return f"New record: {'; '.join(lower)}."
    if not any(old.beats(new) or old.figures == new.figures for old in before):
        return "It is on the front: no earlier attempt of yours has both fewer operations and less memory."
    return ""
