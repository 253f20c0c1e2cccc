"""The report for a person: 80 columns, complete without colour."""

import click
import numpy as np
import pytest

from grader.course import catalog
from grader.course.catalog import Misconception
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Case
from grader.report.terminal import WIDTH, render
from grader.wire.compare import Mismatch

PROBLEM = catalog.find("07")


def report(*verdicts: Verdict, **more: object) -> Report:
    mismatch = Mismatch("value", "gradient.logits", "0.5", "0.25", (1, 2), 0.25, 3, 20)
    case = Case({"logits": np.zeros((40, 50), np.float32), "token_ids": np.arange(4), "pad_id": 4})
    checks = [
        CheckResult(check, verdict, mismatch.sentence(), mismatch, case)
        if verdict is Verdict.FAIL
        else CheckResult(check, verdict)
        for check, verdict in zip(PROBLEM.checks, verdicts, strict=False)
    ]
    return Report(PROBLEM, "mine.py", checks, **more)


def test_a_failure_tells_all_there_is_to_know():
    idea = Misconception("no shift", "Row t is compared with token t. " * 10, "a", ("b",))
    text = click.unstyle(render(report(Verdict.FAIL, *[Verdict.PASS] * 4, misconception=idea, stdout="hello\n" * 20)))
    assert text.startswith("Problem 07, Next-token loss: FAIL, 5 of 6 points")
    for part in (
        "FAIL    0/1  shifted by one",
        "leaf      gradient.logits[1, 2]",
        "expected  0.5",
        "got       0.25",
        "off by    0.25",
        "logits: float32[40, 50]",
        "pad_id = 4",
        "This is what comes out of: no shift",
        "It printed:",
        "Next: repair",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("hello") == 8


@pytest.mark.parametrize(
    ("verdicts", "total"),
    [
        ([Verdict.PASS] * 5, "PASS"),
        ([Verdict.NOT_ATTEMPTED] * 5, "NOT ATTEMPTED"),
        ([Verdict.NOT_ATTEMPTED, Verdict.PASS], "FAIL"),
        ([Verdict.FAIL, Verdict.ERROR, Verdict.PASS], "ERROR"),
        ([Verdict.ERROR, Verdict.TIMEOUT], "TIMEOUT"),
        ([Verdict.TIMEOUT, Verdict.MEMORY, Verdict.FAIL], "MEMORY"),
    ],
)
def test_the_verdict_is_the_worst_of_the_checks(verdicts, total):
    found = report(*verdicts)
    assert found.verdict == total
    assert f": {total}, " in click.unstyle(render(found))


def test_no_meaning_by_colour_alone():
    plain = click.unstyle(render(report(Verdict.FAIL, Verdict.PASS)))
    assert "FAIL    0/1" in plain
    assert "pass    1/1" in plain
