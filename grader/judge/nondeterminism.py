"""Recognizes code that depends on time or on random numbers: a fresh process traces it to another program.

`random` and NumPy draw the same numbers in each grading, so most of such code gets the same score again. The report
still notes it, and names no misconception, because the numbers are those of one run.
"""

import re
from collections.abc import Sequence

from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Session
from grader.wire.channel import Frame, encode

REMARK = (
    "it gives different results on the same inputs: it depends on the time, or on random numbers without a seed; draw "
    "with `jax.random` from a key that it is given"
)
MOST = 6  # programs that are traced once more
# Only files that mention one of these are traced once more. The hashes of texts, and so the order of sets, never
# change.
_SOURCES = re.compile(
    r"^\s*(?:import|from)\s+(?:random|time|datetime|uuid|secrets)\b|\b(?:np|numpy)\.random\b|\burandom\b", re.MULTILINE
)

Traced = Sequence[tuple[Frame, Frame | Failure]]


def may_be(submission: Submission) -> bool:
    """Returns whether a file mentions time or random numbers other than those of JAX."""
    return any(_SOURCES.search(text) for text in submission.sources.values())


def differs(submission: Submission, fresh: Session, traced: Traced) -> bool:
    """Returns whether a fresh process, in which other random numbers are drawn, traces a request to another program."""
    if failure := fresh.load("", submission, draws=1):
        return failure.kind not in ("memory", "timeout", "processes")
    for request, before in traced[:MOST]:
        now = fresh.ask(request, "program", "untraceable")
        if isinstance(now, Failure) or isinstance(before, Failure):
            if fresh.ended:  # the time is up: nothing is known
                return False
            if not (isinstance(now, Failure) and isinstance(before, Failure) and now.identity == before.identity):
                return True
        elif encode(now) != encode(before):
            return True
    return False
