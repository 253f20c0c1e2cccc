"""What is found in a file, as lines that an editor reads."""

import re
from dataclasses import replace
from pathlib import Path

from grader.course import vscode
from grader.course.catalog import Misconception
from grader.judge.verdict import Verdict
from grader.report import findings
from tests.grader.report.reports import PROBLEM, report_of

FAIL, PASS, TODO = Verdict.FAIL, Verdict.PASS, Verdict.NOT_ATTEMPTED
FILE = "import jax\n\n\ndef next_token_loss(logits, token_ids, pad_id):\n    return 0\n"


def found(path: Path, report) -> list[tuple[str, ...]]:
    """The file, line, column, severity and message of each line, as the task's problem matcher reads them."""
    matcher = vscode.contents()["tasks.json"][0]["tasks"][0]["problemMatcher"]["pattern"]
    groups = [matcher[name] for name in ("file", "line", "column", "severity", "message")]
    lines = list(findings.lines(report, path))
    return [re.fullmatch(matcher["regexp"], line).group(*groups) for line in lines]


def test_an_error_with_the_misconception_its_points_and_advice(tmp_path):
    path = tmp_path / "a folder: mine" / f"{PROBLEM.name}.py"
    path.parent.mkdir()
    path.write_text(FILE)
    report = report_of(FAIL, PASS, misconception=Misconception("not shifted", "Shift\nit.", "", ()))
    failed = PROBLEM.checks[0]
    error, advice = found(path, report)
    assert error[:4] == (str(path), "4", "1", "error")
    assert error[4].startswith(f"not shifted. {failed.name}: ")
    assert error[4].endswith(f"({report.score} of {PROBLEM.points} points)")
    assert advice == (str(path), "4", "1", "info", "Shift it.")

    earlier = replace(report, misconception=None, earlier=report_of(FAIL))
    (path.parent / "mine.py").write_text(FILE)
    assert (str(path.parent / "mine.py"), "4") in [line[:2] for line in found(path, earlier)]


def test_a_stub_is_no_error_and_a_pass_is_nothing(tmp_path):
    path = tmp_path / f"{PROBLEM.name}.py"
    path.write_text(FILE)
    ((_, line, _, severity, message),) = found(path, report_of(*[TODO] * len(PROBLEM.checks)))
    assert (line, severity) == ("4", "info")
    assert message.startswith("Nothing to grade yet: write `next_token_loss(")
    assert found(path, report_of(*[PASS] * len(PROBLEM.checks))) == []

    unwritten = report_of(*[TODO] * len(PROBLEM.checks))
    for earlier, state in ((unwritten, "is not written yet"), (report_of(FAIL), "does not pass")):
        first, second = found(path, replace(unwritten, earlier=earlier))
        assert first[4] == f"Not graded yet: this file builds on problem 07, and mine.py {state}."
        assert second[0] == str(path.parent / "mine.py")
        assert second[4].startswith("Check problem 07 first")
    path.unlink()
    assert found(path, report_of(FAIL))[0][1] == "1", "a file that is gone"
