"""A report without what would give secret cases away, for a learner's eyes."""

from collections.abc import Mapping
from typing import Any

from grader.verdict import NOTHING_RUN

_KINDS = {
    "value": "a number differs from the reference's",
    "shape": "a shape differs from the reference's",
    "dtype": "a dtype differs from the reference's",
    "missing": "something that the reference gives is missing",
    "unexpected": "there is something that the reference does not give",
}
_VERDICTS = {
    "FAIL": "it does not give what the reference gives",
    "ERROR": "it raised an exception, or ended by itself",
    "TIMEOUT": "it gave no result in time",
    "MEMORY": "it ran out of memory",
    "NOT ATTEMPTED": "not implemented yet",
}


def concealed(report: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict of each check, what kind of difference it met, and the idea behind it.

    Nothing that the submission wrote, and no number of a case: an exception's text, its type or a printed line could carry the
    inputs out. Of a file that was never run, everything.
    """
    if report["isolation"] == NOTHING_RUN:
        return dict(report)
    checks = [
        {**check, "message": "" if check["passed"] else _KINDS.get(check["kind"]) or _VERDICTS[check["verdict"]]}
        for check in report["checks"]
    ]
    return {**report, "checks": checks, "counterexample": None, "stdout": "", "part": ""}
