"""Replaces the errors on secret cases by those of the same checks on the public cases, which a learner may read.

The process that ran the secret cases could put their numbers into an exception's message, type or line, so nothing that
it sent is repeated. A new process, which gets the public cases only, fails again for the report.
"""

import builtins
from collections.abc import Mapping

from grader.course import cases
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.examiner import Examiner
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure
from grader.problem import Case, Check, Problem

# The judge describes these in its own words, and some would take as long again.
_NOT_REPEATED = ("not_implemented", "timeout", "memory", "processes", "protocol")
# A submission names its own exceptions as it likes; these names are Python's.
_NAMES = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}


def own_errors(
    problem: Problem, submission: Submission, workers: Workers, failures: Mapping[str, Failure]
) -> dict[str, str]:
    """Returns a text for each check that ended in an error, by the check's name. `failures` are the errors on the
    secret cases."""
    told = [check for check in problem.checks if check.name in failures]
    told = [check for check in told if failures[check.name].kind not in _NOT_REPEATED]
    if not told:
        return {}
    public_cases = cases.draw_all(problem, 0)
    examiner = Examiner(problem, workers, submission_.job(problem), problem.timeout)
    try:
        unloadable = examiner.load(submission)
        return {
            check.name: _text(
                failures[check.name],
                unloadable or _first_failure(examiner, check, public_cases[check.cases]),
                submission,
                sealed=examiner.isolation.sealed,
            )
            for check in told
        }
    finally:
        examiner.close()


def _first_failure(examiner: Examiner, check: Check, public_cases: list[Case]) -> Failure | None:
    outcomes = (examiner.probe(check, case) for case in public_cases)
    return next((outcome.failure for outcome in outcomes if outcome.failure), None)


def _text(secret: Failure, public: Failure | None, submission: Submission, *, sealed: bool) -> str:
    if public and sealed:
        return f"{public.sentence()}\n{public.frames_text()}".strip()
    what = f"it raised {secret.type}" if secret.type in _NAMES else "it raised an exception or exited"
    if public is None:
        return f"{what} on a hidden case; the public cases raise nothing"
    return what + _place(public, submission)


def _place(failure: Failure, submission: Submission) -> str:
    """Returns the file and line of a failure, if there is such a line."""
    lengths = {f"{name}.py": len(text.splitlines()) for name, text in submission.sources.items()}
    lengths[submission.filename] = max(lengths.values())
    for file, line, _, _ in failure.frames[-1:]:
        if 0 < line <= lengths.get(file, 0):
            return f" ({file}, line {line})"
    return ""
