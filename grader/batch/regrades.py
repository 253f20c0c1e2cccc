"""Requests to grade again, each with a reason for the record: of submissions, or of one check of a problem for
everybody."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch.identity import Directory
from grader.batch.intake import Intake
from grader.batch.records import Regrade
from grader.batch.store import Store
from grader.course import catalog
from grader.problem import Problem


@dataclass(frozen=True)
class Request:
    """Submissions of these learners for these problems, by name, to grade again: all checks, or the one of that
    name."""

    learners: Sequence[str]
    problems: Sequence[str]
    check: str = ""


def of_learner(word: str, directory: Directory, intake: Intake) -> Request:
    """Returns the request that LEARNER or LEARNER:NN stands for. Raises UsageError."""
    names = [problem.name for problem in intake.problems]
    learner, colon, number = word.rpartition(":")
    if colon and word not in directory:
        names = [_graded_now(number, f"--regrade {word}", intake).name]
    else:
        learner = word
    person = directory.find(learner)
    if person is None:
        close = directory.near(learner, 2)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise UsageError(f"--regrade {word}: there is no learner {learner!r} in this class.{hint}")
    return Request([person.learner], names)


def of_check(number: str, check: str, intake: Intake) -> Request:
    """Returns the request that NN CHECK stands for. Raises UsageError."""
    problem = _graded_now(number, f"--regrade-check {number}", intake)
    names = [one.name for one in problem.checks]
    if check not in names:
        close = get_close_matches(check, names, n=1) or names
        raise UsageError(
            f"--regrade-check {number}: problem {problem.label} has no check {check!r}. "
            f"{'Did you mean' if len(close) == 1 else 'Its checks are'} {', '.join(map(repr, close))}"
            f"{'?' if len(close) == 1 else '.'}"
        )
    return Request(intake.learners, [problem.name], check)


def _graded_now(number: str, option: str, intake: Intake) -> Problem:
    problem = catalog.find(number)
    if problem.name not in {other.name for other in intake.problems}:
        raise UsageError(f"{option}: problem {problem.label} is not graded in this batch.")
    return problem


def record(store: Store, requests: Sequence[Request], because: str) -> None:
    """Makes the store forget the results that are asked for. Raises UsageError if there are none."""
    for request in requests:
        slots = [(learner, name) for learner in request.learners for name in request.problems]
        if not sum([store.request_regrade(*slot, because, request.check) for slot in slots]):
            of = f" of {request.learners[0]!r}" if not request.check else ""
            labels = ", ".join(ProblemName(name).label for name in request.problems)
            raise UsageError(f"{store.folder} has no submission{of} for problem {labels} to grade again.")


def carried_out(before: Sequence[Regrade], after: Sequence[Regrade]) -> list[Regrade]:
    """Returns the regrades of `after` that were still open in `before`."""
    return [
        new
        for old, new in zip(before, after, strict=True)
        if old.verdict_after is None and new.verdict_after is not None
    ]


def lines(done: Sequence[Regrade]) -> Iterator[str]:
    """Yields the regrades for the terminal: every requested one of all checks, and those of one check that changed a
    score."""
    checks = dict.fromkeys((regrade.problem, regrade.check_name) for regrade in done if regrade.check_name)
    for problem, check in checks:
        rows = [regrade for regrade in done if (regrade.problem, regrade.check_name) == (problem, check)]
        changed = sum(row.score_before != row.score_after for row in rows)
        yield (
            f"Regraded the check {check!r} of problem {ProblemName(problem).label} in "
            f"{counted(len(rows), 'submission')}: {changed or 'no'} {'score' if changed <= 1 else 'scores'} changed "
            f"({rows[0].because})."
        )
    for new in done:
        if not new.check_name or new.score_before != new.score_after:
            change = f"{new.verdict_before}, {new.score_before} -> {new.verdict_after}, {new.score_after}"
            yield f"Regraded {new.learner}, problem {ProblemName(new.problem).label}: {change} ({new.because})."
