"""The report for a terminal: 80 columns, and complete without color."""

import click
import pytest

from grader.course.catalog import Misconception
from grader.judge.verdict import Verdict
from grader.report.terminal import WIDTH, render
from tests.grader.report.reports import report_of

pytestmark = pytest.mark.fast


def test_a_failure_is_explained():
    misconception = Misconception("no shift", "Row t is compared with token t. " * 10, "a", ("b",))
    report = report_of(Verdict.FAIL, *[Verdict.PASS] * 4, misconception=misconception, stdout="hello\n" * 20)
    text = click.unstyle(render(report))
    assert text.startswith("Problem 07, Next-token loss: FAIL, 5 of 6 points")
    for part in (
        f"FAIL    0/1  {report.problem.checks[0].name}",
        "leaf      gradient.logits[1, 2]",
        "expected  0.5",
        "got       0.25",
        "off by    0.25",
        "Smallest failing case found:",
        "logits: float32[40, 50]",
        "pad_id = 4",
        "Likely cause: no shift",
        "It printed:",
        "Next: fix the first difference, then grade again; `grade hint 07` gives a nudge.",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("hello") == 8


def test_without_a_misconception_the_first_faulty_submodule_is_named():
    sentence = "`attn` receives the right input but returns the wrong output."
    assert sentence in render(report_of(Verdict.FAIL, fault=sentence))


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([Verdict.PASS] * 5, "PASS"),
        ([Verdict.NOT_ATTEMPTED] * 5, "NOT ATTEMPTED"),
        ([Verdict.NOT_ATTEMPTED, Verdict.PASS], "FAIL"),
        ([Verdict.FAIL, Verdict.ERROR, Verdict.PASS], "ERROR"),
        ([Verdict.ERROR, Verdict.TIMEOUT], "TIMEOUT"),
        ([Verdict.TIMEOUT, Verdict.MEMORY, Verdict.FAIL], "MEMORY"),
    ],
)
def test_the_verdict_is_the_most_severe_of_the_checks(verdicts, verdict):
    report = report_of(*verdicts)
    assert report.verdict == verdict
    assert f": {verdict}, " in click.unstyle(render(report))


def test_no_meaning_in_color_alone():
    plain = click.unstyle(render(report_of(Verdict.FAIL, Verdict.PASS)))
    assert "FAIL    0/1" in plain
    assert "pass    1/1" in plain
