"""Redacted reports: neither the grader's words nor the submission's carry a secret case out."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation.level import Isolation, Level
from grader.judge.counterexample import Counterexample
from grader.judge.verdict import Verdict
from grader.problem import Case
from grader.report import formats
from grader.report.json import PublicReport, dumps
from grader.report.redacted import redacted
from tests.conftest import NO_SHIFT, ROOT, Grade, misconception_name
from tests.grader.report.reports import report_of
from tests.grader.report.test_formats import RUNNER

WRONG = (ROOT / "solutions" / "p07_next_token_loss.py").read_text().replace("token_ids[1:]", "token_ids[:-1]")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_no_format_reveals_a_secret_case(name: str, grade: Grade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for variable, value in RUNNER.items():
        monkeypatch.setenv(variable, value)
    (tmp_path / "seed.txt").write_text("secret")
    (tmp_path / "mine.py").write_text(WRONG)
    run = grade("problem", "07", "mine.py", "--format", name, "--seed-file", "seed.txt")
    assert run.code == 1, run.err
    assert "expected" not in run.out
    assert "a number differs from the reference's" in run.out
    assert misconception_name("07", NO_SHIFT) in run.out


def test_an_own_error_stands_for_the_message():
    report = PublicReport.of(report_of(Verdict.ERROR, Verdict.PASS, isolation=Isolation(Level.STRICT)))
    first, second = (replace(check, message="LEAK", own_error="mine") for check in report.checks)
    public = redacted(replace(report, checks=(first, second)))
    assert [(check.message, check.own_error) for check in public.checks] == [("mine", ""), ("", "")]


def test_only_verdicts_kinds_and_the_misconception_are_left():
    report = report_of(
        Verdict.FAIL,
        Verdict.ERROR,
        Verdict.PASS,
        stdout="LEAK",
        eager_stdout="LEAK",
        counterexample=Counterexample(Case({"LEAK": 1})),
        fault="LEAK",
        remarks=["LEAK"],
        isolation=Isolation(Level.STRICT),
    )
    public = redacted(PublicReport.of(report))
    assert [check.message for check in public.checks] == [
        "a number differs from the reference's", "it raised an exception or exited", "",
    ]  # fmt: skip
    assert "LEAK" not in dumps(public), "a public report has no place for arrays"
    assert (public.counterexample, public.stdout, public.part, public.remarks) == (None, "", "", ())


def test_the_report_on_a_file_that_was_never_run_is_not_changed():
    report = PublicReport.of(report_of(Verdict.ERROR))
    assert redacted(report) is report
