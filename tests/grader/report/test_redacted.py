"""Redacted reports: neither the grader's words nor the submission's carry a secret case out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation.level import Isolation, Level
from grader.judge.counterexample import Counterexample
from grader.judge.verdict import Verdict
from grader.problem import Case
from grader.report import formats, html_report
from grader.report.json_report import MisconceptionRow, PublicReport, dumps
from grader.report.redacted import Reveal, redacted, told
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


def wrong() -> PublicReport:
    """A report for a learner, with all that can be told."""
    report = PublicReport.of(report_of(Verdict.FAIL, Verdict.PASS, isolation=Isolation(Level.STRICT)))
    return replace(
        redacted(report), misconception=MisconceptionRow("no shift", "Shift them."), part="in `attn`", remarks=("slow",)
    )


@pytest.mark.parametrize(
    ("reveal", "shown"),
    [
        ("verdict", []),
        ("idea", ["no shift"]),
        ("advice", ["no shift", "Shift them.", "a number differs", "in `attn`", "slow"]),
    ],
)
def test_a_learner_is_told_as_much_as_the_teacher_wants(reveal: Reveal, shown: list[str]):
    report = told(wrong(), reveal)
    everything = dumps(report) + html_report.render(report.report("mine.py"), is_final=True) + formats.text([report])
    for text in ("no shift", "Shift them.", "a number differs", "in `attn`", "slow"):
        assert (text in everything) == (text in shown), text
    assert [check.verdict for check in report.checks] == [Verdict.FAIL, Verdict.PASS]
    assert report.verdict is Verdict.FAIL


def test_why_a_file_could_not_be_run_is_always_told():
    report = PublicReport.refused(None, "broken.py is a binary file")
    assert told(report, "verdict") == report


def test_gradescope_shows_more_after_its_due_date():
    now, then = (told(wrong(), reveal) for reveal in ("verdict", "idea"))
    result = json.loads(formats.render([now], "gradescope", [then]))
    (first, second, more) = result["tests"]
    assert (first["output"], first["visibility"], second["visibility"]) == ("", "visible", "visible")
    assert (more["output"], more["visibility"]) == ("Likely cause: no shift.", "after_due_date")
    assert "score" not in more
    assert "no shift" not in result["output"]
    assert len(json.loads(formats.render([now], "gradescope", [now]))["tests"]) == 2, "there is no more to tell"
    passed = told(redacted(PublicReport.of(report_of(Verdict.PASS))), "verdict")
    assert len(json.loads(formats.render([passed], "gradescope", [passed]))["tests"]) == 1
