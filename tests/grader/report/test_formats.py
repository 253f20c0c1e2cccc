"""Reports as other systems read them: each against its published form."""

import base64
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from grader.batch.gradebook import GRADEBOOKS
from grader.cli import teacher
from grader.report import formats
from tests.conftest import ROOT, Grade

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")
LEAKS = f"""{WRONG}
_loss = next_token_loss
def next_token_loss(logits, token_ids, pad_id):
    print('LEAK', logits.shape)
    raise type('LEAK', (Exception,), {{}})(f'LEAK {{logits.shape}}')
"""


@pytest.fixture
def told(grade: Grade, tmp_path: Path) -> Any:
    """What a format tells of a file."""

    def tell(name: str, text: str = WRONG, *options: object) -> str:
        (tmp_path / "mine.py").write_text(text)
        run = grade("problem", "07", "mine.py", "--format", name, *options)
        assert run.code == (0 if text == GOOD else 1), run.err
        return run.out

    return tell


def test_help_names_all_formats():
    assert set(teacher.FORMATS) == set(formats.FORMATS)
    assert set(teacher.GRADEBOOKS) == set(GRADEBOOKS)


def test_gradescope(told):
    result = json.loads(told("gradescope"))
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
    assert "This is what comes out of: targets not shifted." in result["output"]


def test_prairielearn(told):
    result = json.loads(told("prairielearn"))
    assert result["gradable"] is True
    assert result["score"] == pytest.approx(1 / 6)
    for test in result["tests"]:
        assert set(test) <= {"name", "description", "points", "max_points", "message", "output", "images"}
    assert sum(test["points"] for test in result["tests"]) == 1


def test_github(told):
    line = told("github")
    assert line.count("\n") == 1
    result = json.loads(base64.b64decode(line))
    assert (result["version"], result["status"], result["max_score"]) == (1, "fail", 6)
    assert sum(test["score"] for test in result["tests"]) == 1
    assert {test["status"] for test in result["tests"]} == {"pass", "fail"}
    assert json.loads(base64.b64decode(told("github", GOOD)))["status"] == "pass"


# What the schema that Jenkins validates with, junit-10.xsd, allows: elements inside; attributes, those that must be there.
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
    """Raises AssertionError where an element is not as the schema has it."""
    inside, allowed, required = JUNIT[element.tag]
    assert required <= set(element.keys()) <= allowed | required
    assert re.fullmatch(r"[0-9]+(\.[0-9]*)?", element.get("time", "0"))
    for child in element:
        assert child.tag in inside
        check_junit(child)


def test_junit(told):
    top = ElementTree.fromstring(told("junit"))
    check_junit(top)
    (suite,) = top
    assert (top.tag, suite.tag) == ("testsuites", "testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "4", "0")
    cases = list(suite)
    assert all(case.tag == "testcase" and case.get("name") and case.get("classname") for case in cases)
    assert [len(case) for case in cases].count(1) == 4
    assert "targets not shifted" in (cases[0][0].text or "")


def test_junit_holds_any_text(told):
    text = "def next_token_loss(a, b, c): raise ValueError('\\x00\\x08\\ud800 <&> ]]>')\n"
    (suite,) = top = ElementTree.fromstring(told("junit", text))
    check_junit(top)
    assert suite.get("errors") == "5"


@pytest.mark.parametrize("name", [*formats.FORMATS])
def test_secret_cases_are_not_told(told, name: str, tmp_path: Path):
    """Neither the grader's own words nor the submission's carry them out."""
    (tmp_path / "seed.txt").write_text("secret")
    for text in (WRONG, LEAKS):
        out = told(name, text, "--seed-file", tmp_path / "seed.txt")
        out = base64.b64decode(out).decode() if name == "github" else out
        assert "LEAK" not in out
        assert "expected" not in out
        assert ("a number differs" in out) == (text == WRONG)
    assert "targets not shifted" in told("text", WRONG, "--seed-file", tmp_path / "seed.txt")
