"""A problem in stages: the verdict is that of the first stage that is not passed, and later ones are one line."""

import click
import pytest
from click.testing import CliRunner

from grader.cli.progress import list_
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.report import html_report, json_report, terminal
from grader.resident import grade_file

pytestmark = pytest.mark.fast
PROBLEM = catalog.find("43")
FIRST, SECOND, THIRD = PROBLEM.stages


def report(**verdicts: Verdict) -> Report:
    """A report in which all checks of a stage have one verdict."""
    by_stage = dict(zip(PROBLEM.stages, verdicts.values(), strict=True))
    return Report(PROBLEM, "mine.py", [CheckResult(check, by_stage[check.stage]) for check in PROBLEM.checks])


@pytest.mark.parametrize(
    ("first", "second", "third", "verdict", "passed"),
    [
        ("PASS", "FAIL", "TIMEOUT", "FAIL", 1),
        ("FAIL", "ERROR", "ERROR", "FAIL", 0),
        ("PASS", "NOT ATTEMPTED", "NOT ATTEMPTED", "FAIL", 1),
        ("NOT ATTEMPTED", "NOT ATTEMPTED", "NOT ATTEMPTED", "NOT ATTEMPTED", 0),
        ("PASS", "PASS", "ERROR", "ERROR", 2),
        ("PASS", "PASS", "PASS", "PASS", 3),
        ("FAIL", "PASS", "PASS", "FAIL", 0),
    ],
)
def test_the_verdict_is_that_of_the_first_stage_that_is_not_passed(first, second, third, verdict, passed):
    found = report(first=Verdict(first), second=Verdict(second), third=Verdict(third))
    assert (found.verdict, found.stages_passed) == (verdict, passed)
    again = json_report.PublicReport.of(found)
    assert again.with_check("gradient", again).verdict == verdict


def test_a_later_stage_is_one_line():
    found = report(first=Verdict.PASS, second=Verdict.FAIL, third=Verdict.ERROR)
    for text in (click.unstyle(terminal.render(found)), html_report.render(found)):
        assert f"Stage 1 of 3, {FIRST}: passed" in text
        assert f"Stage 2 of 3, {SECOND}: 0 of 5 checks pass" in text
        assert f"Stage 3 of 3, {THIRD}: later (0 of 13 checks pass)" in text
        assert "later blocks skipped in the backward pass" in text
        assert "each block once" not in text


def test_points_of_later_stages_count():
    found = report(first=Verdict.FAIL, second=Verdict.PASS, third=Verdict.PASS)
    assert found.score == sum(check.points for check in PROBLEM.checks if check.stage != FIRST)


def test_a_problem_without_stages_has_no_headings():
    problem = catalog.find("07")
    found = Report(problem, "mine.py", [CheckResult(check, Verdict.PASS) for check in problem.checks])
    assert "Stage" not in terminal.render(found)
    assert found.stages_passed == 0


def test_what_is_passed_is_listed(tmp_path):
    space = Workspace(tmp_path)
    space.add(PROBLEM)
    grade_file.remember(space, report(first=Verdict.PASS, second=Verdict.FAIL, third=Verdict.FAIL))
    listed = CliRunner().invoke(list_, ["flash"], obj=str(tmp_path))
    assert "fail, 1 of 3 stages passed" in listed.output
    grade_file.remember(space, report(first=Verdict.PASS, second=Verdict.PASS, third=Verdict.PASS))
    assert "stages" not in CliRunner().invoke(list_, ["flash"], obj=str(tmp_path)).output
