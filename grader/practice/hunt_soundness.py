"""Verifies that a hunt is sound: the program was right, it is wrong now in the way that its idea describes, and its
symptom is fair."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic

from grader.course import cases as cases_
from grader.isolation.sandbox import Workers
from grader.judge.diagnose import tolerance_for
from grader.judge.reference import Reference
from grader.judge.verdict import CheckResult, Verdict
from grader.practice import hunts, run_program, symptoms
from grader.practice.hunts import Hunt, Program
from grader.practice.run_program import Failed
from grader.problem import Problem
from grader.wire.compare import SAME, compare, select

SEED = "0"  # of the names in a proof; a learner's are drawn
# Errors of an edit that does not fit, not of an idea.
_MISFITS = ("NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "AttributeError: 'NoneType'")
_RAISED = re.compile(r"\w+(Error|Exception)\b")


@dataclass
class Row:
    """The findings about the hunts of one problem.

    Attributes:
        problem: The problem's name.
        possible: The number of all hunts.
        sound: The number of hunts that are fair, and offered.
        kinds: The number of sound hunts of each kind of symptom.
        left_out: For each hunt that is not offered, the reason.
        complaints: One for each program that fails although it has no fault.
        seconds: The time that it took.
    """

    problem: str
    possible: int = 0
    sound: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        mark = "FAIL" if self.complaints else "ok"
        return f"{mark:5}{self.problem:28}{f'{self.sound}/{self.possible}':10}{self.seconds:7.1f}  {kinds}"


def prove(problem: Problem, workers: Workers) -> Row:
    """Tries every hunt of a problem, and the correct programs behind them."""
    start, row, found = monotonic(), Row(problem.name), hunts.of(problem)
    reference, drawn = Reference(problem, workers), cases_.draw_all(problem, 0)
    reference.keep = False  # nobody asks for these outputs again
    try:
        for base in dict.fromkeys(hunt.base for hunt in found):
            program = hunts.program(next(hunt for hunt in found if hunt.base == base), SEED)
            source = run_program.source_of(problem, program.correct)
            for failed in islice(run_program.failures(problem, source, workers, reference=reference, cases=drawn), 1):
                row.complaints.append(f"{base} fails in disguise: {failed.result.check.name}: {failed.result.message}")
        for hunt in found:
            row.possible += 1
            program = hunts.program(hunt, SEED)
            source = run_program.source_of(problem, program.text)
            failures = first_seen(run_program.failures(problem, source, workers, reference=reference, cases=drawn))
            if reason := unfair(program, failures, reference):
                row.left_out.append(f"{hunt.misconception.name!r} in {hunt.base}: {reason}")
            else:
                row.sound += 1
                row.kinds[symptoms.of(failures[0].result).kind.name] += 1
    finally:
        reference.close()
    row.seconds = monotonic() - start
    return row


def first_seen(failures: Iterator[Failed]) -> list[Failed]:
    """Returns the first failed check that an owner could see; the first of all if each one tells the fault."""
    found: list[Failed] = []
    for failed in failures:
        if not _tells(failed.result):
            return [failed]
        found.append(failed)
    return found[:1]


def _tells(result: CheckResult) -> bool:
    """Returns whether the report on a failed check is a sentence of the course about the fault. One that compares two
    values is none."""
    said = result.message if result.mismatch is None else result.mismatch.words
    return result.verdict is Verdict.FAIL and bool(said) and "expected" not in said


def unfair(program: Program, failures: list[Failed], reference: Reference) -> str:
    """Returns the reason why a program is no fair hunt; empty if it is one."""
    if not failures:
        return "it passes"
    hunt, first = program.hunt, failures[0]
    result = first.result
    if result.verdict in (Verdict.ERROR, Verdict.NOT_ATTEMPTED):
        return _unfair_error(hunt, result)
    if _tells(result):
        return f"its report tells the fault: {result.message}"
    if hunt.base != hunts.REFERENCE and not _has_the_idea(hunt, first, reference):
        return f"it is another fault there: {result.message}"
    return "" if program.fault else "no line is wrong"


def _unfair_error(hunt: Hunt, result: CheckResult) -> str:
    """Returns the reason why a program that raises is no fair hunt; empty if it is one. The grader's own words on an
    error would reveal the fault."""
    if result.verdict is Verdict.NOT_ATTEMPTED or not _RAISED.match(result.message):
        return f"its error tells the fault: {result.message}"
    if result.message.startswith(_MISFITS) or not hunt.misconception.raises:
        return f"the edit does not fit: {result.message}"
    return ""


def _has_the_idea(hunt: Hunt, failed: Failed, reference: Reference) -> bool:
    """Returns whether the program's outcome equals that of the reference with the same misconception."""
    check, case = failed.result.check, failed.result.case
    if case is None:
        return False
    idea = reference.ask(check, case, hunt.misconception.name).result()
    if idea.failure or failed.outcome is None or failed.outcome.failure:
        return False
    if check.measures:  # two programs with one fault need not be equally large
        return True
    tolerance = max(SAME, tolerance_for(check, failed.outcome), key=lambda each: each.rtol)
    expected, got = (select(outcome.leaves, check.leaves) for outcome in (idea, failed.outcome))
    return compare(expected, got, tolerance) is None


def offered(candidates: list[Hunt], seed: str, workers: Workers) -> Iterator[tuple[Program, list[CheckResult]]]:
    """Yields the programs of those hunts that are fair, with the checks that they fail, one after the other."""
    for hunt in candidates:
        program = hunts.program(hunt, seed)
        reference = Reference(hunt.problem, workers)
        try:
            source = run_program.source_of(hunt.problem, program.text)
            failures = list(run_program.failures(hunt.problem, source, workers, reference=reference))
            failures = [failed for failed in failures if not _tells(failed.result)] or failures
            if not unfair(program, failures, reference):
                yield program, [failed.result for failed in failures]
        finally:
            reference.close()
