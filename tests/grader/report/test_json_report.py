"""The JSON object of a report: stable keys, and the same report after a round trip."""

import json

import numpy as np
import pytest

from commandline.problem_name import ProblemName
from grader.course.catalog import Misconception
from grader.isolation.level import Isolation, Level
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Case
from grader.report.json_report import PublicReport, dumps, inputs
from grader.wire.compare import Mismatch
from tests.conftest import NO_SHIFT, Grade, misconception_name
from tests.grader.report.reports import PROBLEM, report_of


def test_the_keys_are_stable(grade: Grade, wrong):
    report = grade("problem", "07", wrong, "--json").json
    assert list(report) == [
        "schema", "problem", "verdict", "score", "points", "checks", "misconception", "part", "earlier",
        "notes", "counterexample", "stdout", "isolation", "seconds", "executed", "remarks", "eager_stdout",
    ]  # fmt: skip
    assert (report["schema"], report["problem"], report["verdict"]) == (1, "p07_next_token_loss", "FAIL")
    assert (report["score"], report["points"]) == (1, 6)
    assert [list(check) for check in report["checks"]] == [
        ["name", "passed", "points", "message", "verdict", "kind", "own_error", "stage"]
    ] * 6
    assert report["misconception"]["name"] == misconception_name("07", NO_SHIFT)
    example = report["counterexample"]
    assert list(example) == ["inputs", "leaf", "index", "expected", "got"]
    assert set(example["inputs"]) == {"logits", "token_ids", "pad_id"}
    assert (example["leaf"], example["index"]) == ("output", [])
    assert example["expected"] == pytest.approx(1.850903)
    assert isinstance(example["got"], float)
    json.dumps(report, allow_nan=False)


def full_report() -> Report:
    """A report that uses every field."""
    misconception = Misconception("no shift", "Shift the targets.", "a", ("b",))
    earlier = report_of(Verdict.ERROR, misconception=misconception)
    isolation = Isolation.measured(["landlock"], ["reads a file"])
    return report_of(
        Verdict.FAIL, Verdict.PASS, misconception=misconception, notes=("a "
            "note",), stdout="printed", isolation=isolation,
        seconds=1.23456, fault="`attn` is wrong.", earlier=earlier,
    )  # fmt: skip


@pytest.mark.parametrize(
    "report",
    [
        PublicReport.of(full_report()),
        PublicReport.of(report_of(*[Verdict.PASS] * 5)),
        PublicReport.of(report_of(Verdict.NOT_ATTEMPTED)),
        PublicReport.refused(PROBLEM.name, "There is no file."),
        PublicReport.refused(None, "There is no problem."),
    ],
    ids=["full", "passed", "not attempted", "refused", "refused without a problem"],
)
def test_a_round_trip(report: PublicReport):
    again = PublicReport.decode(json.loads(dumps(report)))
    assert again == report
    assert dumps(again) == dumps(report)
    assert again.problem is None or isinstance(again.problem, ProblemName)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"verdict": "GREAT"},
        {"checks": 3},
        {"checks": [{}]},
        {"misconception": {"name": "x"}},
        {"unknown": 1},
    ],
)
def test_an_object_that_is_not_a_report(fields):
    good = PublicReport.of(full_report()).encode()
    with pytest.raises((KeyError, TypeError, ValueError)):
        PublicReport.decode({**good, **fields} if fields else {})


def test_values_that_json_cannot_hold():
    """Non-finite numbers and large arrays become texts."""
    values = {
        "x": np.array([[1.0, np.nan], [np.inf, -np.inf]]),
        "large": np.zeros((50, 60), np.float32),
        "n": 3,
        "s": "a",
    }
    shown = inputs(Case(values))
    assert shown == {"x": [[1.0, "nan"], ["inf", "-inf"]], "large": "float32[50, 60]", "n": 3, "s": "a"}
    mismatch = Mismatch("value", "output", "nan", "1e400", (), None, 1, 1)
    report = Report(PROBLEM, "x.py", [CheckResult(PROBLEM.checks[0], Verdict.FAIL, "wrong", mismatch, Case(values))])
    example = json.loads(dumps(PublicReport.of(report)))["counterexample"]
    assert (example["expected"], example["got"]) == ("nan", "1e400")


def test_a_file_that_was_not_run_is_not_executed():
    assert not PublicReport.of(report_of(Verdict.ERROR)).executed
    assert PublicReport.of(report_of(Verdict.ERROR, isolation=Isolation(Level.WEAK))).executed
