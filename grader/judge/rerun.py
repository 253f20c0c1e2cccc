"""Runs the failing case once more, eagerly, in a confined process of its own: to show printed numbers and the first
NaN.

It decides nothing: all checks have been judged. Only for cases that the learner may see, because the code gets their
numbers.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from grader.isolation.sandbox import WorkerProcess
from grader.judge.stdout import without_logs
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult
from grader.judge.worker_session import Mode, Session, probe_frame
from grader.problem import Problem

MOST_PRINTED = 4000  # characters
_TRACER = re.compile(r"\b\w*Tracer\b\s*[<(\[]|\bTraced<")
_NAN_FROM = re.compile(r"encountered in ([\w-]+)")
_ANY_NAN = "NaN is what 0 / 0, inf - inf and 0 * inf give, and the logarithm or root of a negative number."
_GRADIENT_NAN = (
    "The gradient of a branch that `jnp.where` did not select is still computed. 0 times an infinite slope, such as "
    "that of the root or the logarithm at 0, is NaN. Make the argument safe before the root, the logarithm or the "
    "division."
)

Start = Callable[[], WorkerProcess]


def printed_numbers(stdout: str, problem: Problem, submission: Submission, failed: CheckResult, start: Start) -> str:
    """Returns the output of the submission in an eager run of the failing case. Empty unless `stdout` has traced
    arrays, which print no numbers."""
    if failed.case is None or problem.long_runs or not _TRACER.search(stdout):
        return ""
    session = Session(problem, start(), problem.timeout)
    _run(session, submission, failed, "eager")
    text = without_logs(session.worker.close())
    return (
        text
        if len(text) <= MOST_PRINTED
        else f"{text[:MOST_PRINTED]}\n... ({len(text) - MOST_PRINTED:,} characters more)"
    )


def reason_for_nan(problem: Problem, submission: Submission, failed: CheckResult, start: Start) -> str:
    """Returns a sentence on where a NaN comes from, if the first difference is one."""
    mismatch = failed.mismatch
    if not mismatch or mismatch.kind != "value" or mismatch.got != "nan" or mismatch.expected == "nan":
        return ""
    if failed.case is None or problem.long_runs:
        return _ANY_NAN
    session = Session(problem, start(), problem.timeout)
    try:
        first = _run(session, submission, failed, "until_nan")
    finally:
        session.worker.close()
    if first:
        return first
    return _GRADIENT_NAN if mismatch.path.startswith("gradient") else _ANY_NAN


def _run(session: Session, submission: Submission, failed: CheckResult, mode: Mode) -> str:
    """Runs the failing case. Returns a sentence on the first NaN in the submission's own lines, if the run stopped
    there."""
    assert failed.case is not None  # noqa: S101  the callers ask
    # Without the gradient, whose pass would trace the code again.
    options = {key: value for key, value in failed.check.options.items() if key != "wrt"}
    check = replace(failed.check, options=options)
    if session.load("", submission):
        return ""
    failure = session.run(probe_frame("", check, failed.case, mode)).failure
    if mode != "until_nan" or failure is None or failure.type != "FloatingPointError" or not failure.frames:
        return ""
    file, line, _, code = failure.frames[-1]
    operation = _NAN_FROM.search(failure.message)
    what = f" It is the result of `{operation[1]}`." if operation else ""
    return f"The first NaN appears in {file}, line {line}: `{code}`.{what}"
