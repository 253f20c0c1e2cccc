"""Reports in the formats of other systems, each checked against its published definition."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from grader.batch.gradebook import GRADEBOOKS
from grader.cli import teacher
from grader.judge.verdict import Verdict
from grader.report import formats
from grader.report.json_report import PublicReport
from tests.conftest import NO_SHIFT, ROOT, Grade, misconception_name
from tests.grader.report.reports import report_of

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")


@pytest.fixture
def rendered(grade: Grade, tmp_path: Path) -> Any:
    """A function that grades a file and returns the report in a format."""

    def render(name: str, text: str = WRONG, *options: object) -> str:
        (tmp_path / "mine.py").write_text(text)
        run = grade("problem", "07", "mine.py", "--format", name, *options)
        assert run.code == (0 if text == GOOD else 1), run.err
        return run.out

    return render


def test_the_help_lists_all_formats():
    assert set(teacher.FORMATS) == set(formats.FORMATS)
    assert set(teacher.GRADEBOOKS) == set(GRADEBOOKS)


def test_gradescope(rendered):
    result = json.loads(rendered("gradescope"))
    assert set(result) <= {
        "score", "execution_time", "output", "output_format", "visibility", "stdout_visibility", "tests",
        "extra_data", "leaderboard",
    }  # fmt: skip
    assert result["score"] == 1
    assert result["visibility"] in ("hidden", "after_due_date", "after_published", "visible")
    for test in result["tests"]:
        assert set(test) <= {
            "score", "max_score", "status", "name", "name_format", "number", "output", "output_format", "tags",
            "visibility", "extra_data",
        }  # fmt: skip
        assert test["status"] in ("passed", "failed")
        assert test["output_format"] in ("text", "html", "simple_format", "md", "ansi")
    assert sum(test["score"] for test in result["tests"]) == 1
    assert sum(test["max_score"] for test in result["tests"]) == 6
    assert f"Likely cause: {misconception_name('07', NO_SHIFT)}." in result["output"]


def test_prairielearn(rendered):
    result = json.loads(rendered("prairielearn"))
    assert result["gradable"] is True
    assert result["score"] == pytest.approx(1 / 6)
    for test in result["tests"]:
        assert set(test) <= {"name", "description", "points", "max_points", "message", "output", "images"}
    assert sum(test["points"] for test in result["tests"]) == 1


RUNNER = {
    "CLASSROOM": "kata",
    "ASSIGNMENT": "part-1",
    "ASSIGNMENT_TYPE": "group",
    "OWNER": "ada",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://github.com/o/r/commit/a1b2c3d",
    "RELEASE_URL": "https://github.com/o/r/releases/tag/submit",
    "REVIEW_URL": "https://github.com/o/r/compare/0...a1b2c3d",
}


def check_classroom50(result: dict[str, Any]) -> None:
    """Raises AssertionError unless it is a `classroom50/result/v1`, by the rules of Classroom 50's runner and
    collector."""
    assert result["schema"] == "classroom50/result/v1"
    for key in ("classroom", "assignment", "owner", "commit", "release", "review"):
        assert isinstance(result[key], str), key
        assert result[key], key
    assert result["assignment_type"] in ("individual", "group", "team")
    assert result["submission"].startswith("submit/")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["datetime"])
    for row in (result, *result["tests"]):
        assert type(row["score"]) is type(row["max-score"]) is int
        assert 0 <= row["score"] <= row["max-score"]
    for test in result["tests"]:
        assert isinstance(test["test-name"], str)
        assert test["test-name"]
        assert type(test["passed"]) is bool


def test_classroom50(rendered, monkeypatch: pytest.MonkeyPatch):
    for name, value in RUNNER.items():
        monkeypatch.setenv(name, value)
    result = json.loads(rendered("classroom50"))
    check_classroom50(result)
    assert (result["classroom"], result["assignment"], result["owner"]) == ("kata", "part-1", "ada")
    assert (result["assignment_type"], result["review"]) == ("group", RUNNER["REVIEW_URL"])
    assert (result["score"], result["max-score"]) == (1, 6)
    assert [test["score"] for test in result["tests"] if test["passed"]] == [1]
    assert f"Likely cause: {misconception_name('07', NO_SHIFT)}." in result["tests"][0]["output"]
    monkeypatch.setenv("REVIEW_URL", "")
    result = json.loads(rendered("classroom50", GOOD))
    assert (result["score"], result["review"]) == (6, RUNNER["COMMIT_URL"])


def test_classroom50_outside_of_its_runner(grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text(GOOD)
    run = grade("problem", "07", "mine.py", "--format", "classroom50")
    assert run.code == 2
    assert "runs in Classroom 50's runner, which sets CLASSROOM and ASSIGNMENT" in run.err


# From junit-10.xsd, the schema that Jenkins validates with: allowed child elements, optional attributes, required
# attributes.
JUNIT = {
    "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "errors"}, set()),
    "testsuite": (
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"name", "tests", "failures", "errors"},
    ),
    "testcase": ({"skipped", "error", "failure", "system-out", "system-err"}, {"time", "classname", "group"}, {"name"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
}


def check_junit(element: ElementTree.Element) -> None:
    """Raises AssertionError if an element does not follow the schema."""
    children, optional, required = JUNIT[element.tag]
    assert required <= set(element.keys()) <= optional | required
    assert re.fullmatch(r"[0-9]+(\.[0-9]*)?", element.get("time", "0"))
    for child in element:
        assert child.tag in children
        check_junit(child)


def test_junit(rendered):
    top = ElementTree.fromstring(rendered("junit"))
    check_junit(top)
    (suite,) = top
    assert (top.tag, suite.tag) == ("testsuites", "testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "5", "0")
    cases = list(suite)
    assert all(case.tag == "testcase" and case.get("name") and case.get("classname") for case in cases)
    assert [len(case) for case in cases].count(1) == 5
    assert misconception_name("07", NO_SHIFT) in (cases[0][0].text or "")


def test_junit_counts_an_error_apart_from_a_failure():
    verdicts = (Verdict.FAIL, Verdict.ERROR, Verdict.PASS, Verdict.TIMEOUT, Verdict.NOT_ATTEMPTED)
    (suite,) = ElementTree.fromstring(formats.junit([PublicReport.of(report_of(*verdicts))]))
    assert [case[0].tag if len(case) else "" for case in suite] == ["failure", "error", "", "error", "failure"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "2", "2")


def test_junit_holds_any_text(rendered):
    text = "def next_token_loss(a, b, c): raise ValueError('\\x00\\x08\\ud800 <&> ]]>')\n"
    (suite,) = top = ElementTree.fromstring(rendered("junit", text))
    check_junit(top)
    assert suite.get("errors") == "6"
