"""Redacted reports: neither the grader's words nor the submission's carry a secret case out."""

import base64
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

WRONG = (ROOT / "solutions" / "p07_next_token_loss.py").read_text().replace("token_ids[1:]", "token_ids[:-1]")
LEAKS = f"""{WRONG}
_loss = next_token_loss
def next_token_loss(logits, token_ids, pad_id):
    print('LEAK', logits.shape)
    raise type('LEAK', (Exception,), {{}})(f'LEAK {{logits.shape}}')
"""


@pytest.mark.parametrize("name", formats.FORMATS)
def test_no_format_reveals_a_secret_case(name: str, grade: Grade, tmp_path: Path):
    (tmp_path / "seed.txt").write_text("secret")
    for text in (WRONG, LEAKS):
        (tmp_path / "mine.py").write_text(text)
        run = grade("problem", "07", "mine.py", "--format", name, "--seed-file", "seed.txt")
        assert run.code == 1, run.err
        out = base64.b64decode(run.out).decode() if name == "github" else run.out
        assert "LEAK" not in out + run.err
        assert "expected" not in out
        assert ("a number differs from the reference's" in out) == (text == WRONG)
        assert (misconception_name("07", NO_SHIFT) in out) == (text == WRONG)


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
