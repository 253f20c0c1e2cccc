"""The report for a terminal: as wide as it is, and complete without color."""

import click
import numpy as np
import pytest

from grader.course import cases, catalog
from grader.course.catalog import Misconception
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Case
from grader.report.terminal import render
from grader.wire.compare import Mismatch
from tests.grader.report.reports import PROBLEM, report_of

pytestmark = pytest.mark.fast


def test_a_failure_is_explained():
    misconception = Misconception("no shift", "Row t is compared with token t. " * 10, "a", ("b",))
    report = report_of(Verdict.FAIL, *[Verdict.PASS] * 5, misconception=misconception, stdout="hello\n" * 20)
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
    assert text.count("hello") == 8


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_fits_and_no_word_is_broken(width):
    name = "an idea with-a-hyphen and a rather long name " * 3
    misconception = Misconception(name, "Row t is compared with token t. " * 10, "a", ("b",))
    report = report_of(
        *[Verdict.FAIL] * 5, misconception=misconception, stdout="printed " * 40, remarks=["ran eagerly " * 12]
    )
    text = click.unstyle(render(report, width))
    assert width - 12 < max(map(len, text.splitlines())) <= width
    assert set(name.split()) <= set(text.split())


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


def test_a_file_that_waits_for_an_earlier_one_is_not_called_unwritten():
    unwritten = report_of(*[Verdict.NOT_ATTEMPTED] * 5)
    assert "Nothing to grade yet: write `next_token_loss(" in " ".join(render(unwritten).split())
    waiting = render(report_of(*[Verdict.NOT_ATTEMPTED] * 5, earlier=unwritten))
    assert "Nothing to grade yet" not in waiting
    assert "Check problem 07 first" in waiting


def test_no_meaning_in_color_alone():
    plain = click.unstyle(render(report_of(Verdict.FAIL, Verdict.PASS)))
    assert "FAIL    0/1" in plain
    assert "pass    1/1" in plain


def test_a_reason_is_given_once_and_under_every_failure():
    checks = report_of(*[Verdict.FAIL] * 2, Verdict.PASS, Verdict.FAIL).checks
    report = Report(PROBLEM, "mine.py", checks, notes=["read from a notebook"], remarks=["ran eagerly"])
    text = click.unstyle(render(report))
    assert text.count("`gradient.logits[1, 2]`") == 1
    assert text.count("same cause as above") == 2
    assert text.count("Read from a notebook.") == text.count("Ran eagerly.") == 1


def test_a_passing_line_has_no_message():
    check = PROBLEM.checks[0]
    assert "unread" not in render(Report(PROBLEM, "mine.py", [CheckResult(check, Verdict.PASS, "unread")]))


def test_inputs_and_differences_in_the_words_of_the_problem():
    problem = catalog.find("11")
    (case, *_) = cases.draw(problem, "long", 0)
    mismatch = Mismatch("value", "norm", "1", "2", words="the norm is that of the clipped gradients")
    result = CheckResult(problem.checks[0], Verdict.FAIL, mismatch.sentence(), mismatch, case)
    text = click.unstyle(render(Report(problem, "mine.py", [result])))
    assert "  The norm is that of the clipped gradients.\n" in text
    assert "leaf " not in text
    assert 'gradients["blocks"][0]["kernel"]: float32' in text
    assert "  max_norm = 4\n" in text


def test_a_tiny_number_does_not_look_like_zero():
    case = Case({"x": np.array([0.25, 0.0, 3e-30]), "noisy": np.array([0.25, 0.0, 3e-7])})
    result = CheckResult(PROBLEM.checks[0], Verdict.FAIL, "", Mismatch("value", "output", "1", "2"), case)
    text = click.unstyle(render(Report(PROBLEM, "mine.py", [result])))
    assert "[2.5e-01 0.0e+00 3.0e-30]" in text
    assert "[0.25 0.   0.  ]" in text


def test_a_play_is_offered_only_where_it_can_run():
    """Trained values are given to parameters by name, and code that stops has nothing to show."""
    first = catalog.find("01")
    idea = Misconception("table in a module", "It has one part more.", "a", ("b",))

    def said(kind: str, verdict: Verdict = Verdict.FAIL) -> str:
        wrong = Mismatch(kind, "pos_embed", "float32[3, 4]", "nothing")
        results = [
            CheckResult(check, verdict, "", wrong) if check.probe == "parameters" else CheckResult(check, Verdict.PASS)
            for check in first.checks
        ]
        return click.unstyle(render(Report(first, "mine.py", results, misconception=idea)))

    assert "grade play 01" in said("value")
    assert "grade play" not in said("missing") + said("value", Verdict.ERROR)
