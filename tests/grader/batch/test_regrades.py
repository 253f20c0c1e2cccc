"""One check graded again for everybody: it alone gets another result, and the record says why."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import command
from grader.batch.options import BatchOptions
from grader.course import catalog
from grader.judge.verdict import Verdict
from grader.report.json_report import CheckRow, PublicReport
from tests.grader.batch.conftest import GOOD, NAME, WRONG, Submit, rows, table

CHECKS = [check.name for check in catalog.load(NAME).checks]
FAULTY, OTHER = CHECKS[-1], CHECKS[-2]


def lose(out: Path, learner: str, *checks: str) -> None:
    """Makes a stored result what a faulty grader would have given: these checks have failed."""
    with closing(sqlite3.connect(out / "results.sqlite")) as database, database:
        (text,) = database.execute("select report from attempts where learner = ?", [learner]).fetchone()
        report = json.loads(text)
        for row in report["checks"]:
            if row["name"] in checks:
                row |= {"passed": False, "verdict": "FAIL", "message": "our fault"}
        report |= {"verdict": "FAIL", "score": sum(row["points"] for row in report["checks"] if row["passed"])}
        database.execute(
            "update attempts set report = ?, verdict = 'FAIL', score = ?, message = 'our fault' where learner = ?",
            [json.dumps(report), report["score"], learner],
        )


@pytest.mark.thorough
def test_one_check_is_graded_again_for_everybody(submit: Submit, tmp_path: Path):
    folder, out = submit("ada", GOOD), tmp_path / "results"
    submit("bob", GOOD.replace("def ", "def  ", 1))
    submit("cleo", WRONG)
    list(command.batch(folder, out, BatchOptions(jobs=1)))
    lose(out, "ada", FAULTY)
    lose(out, "bob", FAULTY, OTHER)
    list(command.batch(folder, out, BatchOptions(jobs=1)))  # the marks that were published
    points = {check.name: check.points for check in catalog.load(NAME).checks}
    marks = {name: int(row["score"]) for name, row in rows(out).items()}
    options = BatchOptions(jobs=1, regrade_checks=(("7", FAULTY),), because="the reference was wrong")
    lines = list(command.batch(folder, out, options))
    assert any(line.startswith("To grade: 3") for line in lines)
    assert (
        f"Regraded the check {FAULTY!r} of problem 07 in 3 submissions: 2 scores changed (the reference was wrong)."
    ) in lines
    after = {name: (row["verdict"], int(row["score"])) for name, row in rows(out).items()}
    assert after == {
        "ada": ("PASS", marks["ada"] + points[FAULTY]),
        "bob": ("FAIL", marks["bob"] + points[FAULTY]),  # the other check kept its result
        "cleo": ("FAIL", marks["cleo"]),
    }
    assert rows(out)["bob"]["message"].startswith(f"{OTHER}: ")
    assert {(row["learner"], row["check_name"]) for row in table(out / "regrades.csv")} == {
        (name, FAULTY) for name in marks
    }
    assert {row["learner"]: row["because"] for row in table(out / "changes.csv")} == dict.fromkeys(
        ["ada", "bob"], "the reference was wrong"
    )
    again = list(command.batch(folder, out, BatchOptions(jobs=1)))
    assert "To grade: 0. Unchanged: 3. Not handed in: 0. Unreadable: 0." in again


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (("08", "x"), "--regrade-check 08: problem 08 is not graded in this batch"),
        (("7", FAULTY + "s"), f"Did you mean {FAULTY!r}?"),
        (("7", "x"), f"has no check 'x'. Its checks are '{CHECKS[0]}', "),
    ],
)
def test_a_check_that_is_none_is_a_sentence(submit: Submit, tmp_path: Path, check, message):
    options = BatchOptions(regrade_checks=(check,), because="x", jobs=1)
    with pytest.raises(UsageError) as error:
        list(command.batch(submit("ada", GOOD), tmp_path / "results", options))
    assert message in str(error.value)


def report(*verdicts: Verdict, part: str = "") -> PublicReport:
    rows_ = tuple(
        CheckRow(name, verdict is Verdict.PASS, 1, f"{name} {verdict}", verdict)
        for name, verdict in zip("abc", verdicts, strict=False)
    )
    return PublicReport(None, Verdict.FAIL, 0, 3, rows_, part=part)


def test_the_explanation_is_that_of_the_first_failure():
    old = report(Verdict.FAIL, Verdict.PASS, Verdict.PASS, part="old")
    new = report(Verdict.PASS, Verdict.PASS, Verdict.FAIL, part="new")
    assert old.with_check("c", new).part == "old"
    assert old.with_check("c", new).score == 1
    assert old.with_check("a", new).verdict is Verdict.PASS
    kept = old.with_check("b", report(Verdict.FAIL, Verdict.TIMEOUT, part="new"))
    assert (kept.verdict, kept.score, kept.points, kept.part) == (Verdict.TIMEOUT, 0, 2, "old")
