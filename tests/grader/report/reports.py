"""A report for tests: on a file for problem 07 with the given verdicts, in the order of its checks."""

from typing import Any

import numpy as np

from grader.course import catalog
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Case
from grader.wire.compare import Mismatch

PROBLEM = catalog.find("07")


def report_of(*verdicts: Verdict, **fields: Any) -> Report:
    mismatch = Mismatch("value", "gradient.logits", "0.5", "0.25", (1, 2), 0.25, 3, 20)
    case = Case({"logits": np.zeros((40, 50), np.float32), "token_ids": np.arange(4), "pad_id": 4})
    results = [
        CheckResult(check, verdict, mismatch.sentence(), mismatch, case)
        if verdict is Verdict.FAIL
        else CheckResult(check, verdict)
        for check, verdict in zip(PROBLEM.checks, verdicts, strict=False)
    ]
    return Report(PROBLEM, "mine.py", results, **fields)
