"""Who a learner is over some weeks: renamed, in a group, joined by the teacher. No mark is lost."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import command, deadlines, groups, identity, intake
from grader.batch.faults import Faults
from grader.batch.options import BatchOptions
from grader.batch.records import Person, StoredAttempt
from grader.batch.results import Results
from grader.batch.store import Store
from grader.course import catalog
from grader.judge.verdict import Verdict
from grader.report.json_report import CheckRow, PublicReport
from tests.conftest import Grade
from tests.grader.batch.conftest import GOOD, NAME, WRONG, rows, table, zipped

pytestmark = pytest.mark.fast

PROBLEM = catalog.load(NAME)
TITLE = f"{PROBLEM.label} {PROBLEM.title}"
ROSTER = """Student,ID,SIS User ID,SIS Login ID
"King, Ada",1001,,ada
"W, Bob",1002,,bob
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A class of three, of whom the first two have 3 and 5 points, the second at an earlier problem, too."""
    store = Store(tmp_path / "results")
    store.remember_intake([Person(name, (name,), (name,)) for name in ("17", "18", "19")], [])
    for learner, problem, score in (("17", NAME, 3), ("18", NAME, 5), ("18", "p01_token_embedding", 1)):
        attempt = StoredAttempt(learner, problem, f"{learner} {problem}", "k", "f.py", "FAIL", score, 6)
        store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)
    store.close()
    return tmp_path / "results"


def marks(folder: Path) -> dict[tuple[str, str], float]:
    stored = Results(folder)
    try:
        return {(record.learner, record.problem[:3]): record.mark for record in stored.records()}
    finally:
        stored.close()


@pytest.mark.thorough
def test_a_learner_with_a_new_name_keeps_the_marks(tmp_path: Path):
    out, students = tmp_path / "results", tmp_path / "roster.csv"
    students.write_text(ROSTER)
    options = BatchOptions(problems="07", jobs=1, roster=students, formats=("canvas",))
    for number, learner, text in ((1, "loveadaa", GOOD), (2, "kingada", WRONG)):
        export = zipped(tmp_path / f"{number}.zip", {f"{learner}_1001_{number}_{NAME}.py": text})
        lines = list(command.batch(export, out, options))
    assert "Note: 'loveadaa (1001)' is called 'kingada (1001)' now." in lines
    assert {name: (row["verdict"], row["attempts"]) for name, row in rows(out).items()} == {
        "kingada (1001)": ("PASS", "2"), "W, Bob (1002)": ("NOT ATTEMPTED", "0"),
    }  # fmt: skip
    assert [row[TITLE] for row in table(out / "gradebook.csv")] == ["6", "0"]
    canvas = {row["Student"]: (row["ID"], row["SIS User ID"], row[TITLE]) for row in table(out / "canvas.csv")[1:]}
    assert canvas == {"kingada": ("1001", "", "6"), "W, Bob": ("1002", "", "0")}


def test_a_teacher_joins_two_learners(grade: Grade, results: Path, tmp_path: Path):
    run = grade("results", results, "--join", "18", "17", "--because", "her second account")
    assert run.code == 0, run.err
    assert run.out.startswith(
        "'18' and '17' are one learner now, '17', with the attempts of both. The next `grade batch`"
    )
    assert marks(results) == {("17", "p07"): 5, ("17", "p01"): 1}
    assert [(row["learner"], row["joined"], row["because"]) for row in table(results / "joins.csv")] == [
        ("18", "17", "her second account")
    ]
    # What comes under the other id from now on is the same learner's.
    (tmp_path / "class" / "18").mkdir(parents=True)
    (tmp_path / "class" / "18" / "07.py").write_bytes(b"\0")
    lines = list(command.batch(tmp_path / "class", results, BatchOptions(problems="07", jobs=1)))
    assert rows(results).keys() == {"17"}
    assert not any("earlier submissions" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--join", "17", "18"), "--join needs --because with the reason"),
        (("--because", "x"), "--because needs --join with the two learners"),
        (("--join", "17", "17", "--because", "x"), "are the same learner already"),
        (("--join", "17", "zoe", "--because", "x"), "has no learner 'zoe'; name one as in results.csv"),
    ],
)
def test_joins_that_are_refused(grade: Grade, results: Path, arguments: tuple[str, ...], message: str):
    run = grade("results", results, *arguments)
    assert (run.code, message in run.err) == (2, True), run.err
    assert marks(results)["17", "p07"] == 3


def test_results_of_the_schema_before_are_read(results: Path):
    with closing(sqlite3.connect(results / "results.sqlite")) as database:
        database.executescript(
            "drop view records; drop table joins; drop table known; drop table comments; "
            "alter table counted drop column excused; alter table attempts drop column members; "
            "alter table counted drop column times; alter table learners drop column section; "
            "alter table regrades drop column check_name; "
            "update facts set value = '2' where name = 'schema'; "
            "create view records as select attempts.*, counted.adjusted, counted.late from attempts join counted "
            "using (learner, problem, attempt);"
        )
    with pytest.raises(UsageError, match="earlier version of the course; run `grade batch` once"):
        Results(results)
    Store(results).close()
    assert marks(results) == {("17", "p07"): 3, ("18", "p07"): 5, ("18", "p01"): 1}


@pytest.mark.parametrize(("fact", "kept"), [("due 07: 2026-11-02 23:59 (UTC)", None), ("/rules.yaml", "/rules.yaml")])
def test_results_of_schema_4_are_read(results: Path, fact: str, kept: str | None):
    """Its fact `deadlines` has the rules in words or, in folders that remember the file, its path."""
    with closing(sqlite3.connect(results / "results.sqlite")) as database:
        database.executescript(
            "drop view records; drop table known; drop table comments; alter table counted drop column excused; "
            "alter table regrades drop column check_name; "
            "update facts set value = '4' where name = 'schema'; "
            "create view records as select attempts.*, counted.adjusted from attempts join counted "
            "using (learner, problem, attempt); "
            f"insert into facts values ('deadlines', '{fact}');"
        )
    store = Store(results)
    assert store.fact("deadlines") == kept
    assert (store.known(), store.comments("x", "1")) == ([], {})
    store.close()
    assert marks(results) == {("17", "p07"): 3, ("18", "p07"): 5, ("18", "p01"): 1}


CANVAS_GROUPS = """name,canvas_user_id,user_id,login_id,sections,group_name
Ada,1001,,ada,A,One
Bob,1002,,bob,A,One
Cy,1003,,cy,A,
"""
OWN_GROUPS = "learner,group\n1001,One\n1002,One\n"
MOODLE_GROUPS = "ID number;Group\n1001;One\n1002;One\n"


@pytest.mark.parametrize("text", [CANVAS_GROUPS, OWN_GROUPS, MOODLE_GROUPS])
def test_what_one_member_hands_in_is_every_members(tmp_path: Path, text: str):
    (tmp_path / "groups.csv").write_text(text, encoding="utf-8-sig")
    export = zipped(tmp_path / "e.zip", {f"ada_1001_1_{NAME}.py": GOOD, f"cy_1003_2_{NAME}.py": WRONG})
    read = intake.read(export, [PROBLEM], Faults(tmp_path / "log"))
    assert groups.apply(groups.read(tmp_path / "groups.csv"), read) == []
    (bob,) = read.people.keys() - {"ada (1001)", "cy (1003)"}
    assert "1002" in read.people[bob].ids
    assert {(item.learner, item.members) for item in read.items} == {
        ("ada (1001)", f"ada (1001) and {bob}"), (bob, f"ada (1001) and {bob}"), ("cy (1003)", ""),
    }  # fmt: skip


def test_tables_that_name_no_groups(tmp_path: Path):
    path = tmp_path / "groups.csv"
    with pytest.raises(UsageError, match="cannot be read"):
        groups.read(path)
    for text in ("", "learner\nada\n", "group\nOne\n"):
        path.write_text(text)
        with pytest.raises(UsageError, match="need the columns learner and group"):
            groups.read(path)
    path.write_text("learner,group\nada,One\nbob,One\n")
    export = zipped(tmp_path / "e.zip", {f"cy_1003_2_{NAME}.py": WRONG})
    read = intake.read(export, [PROBLEM], Faults(tmp_path / "log"))
    assert groups.apply(groups.read(path), read) == ["the group 'One' (ada and bob) handed in nothing"]


def test_the_same_learner_by_id(results: Path, tmp_path: Path):
    store = Store(results)
    export = zipped(tmp_path / "e.zip", {f"ada_17_1_{NAME}.py": GOOD})
    read = intake.read(export, [PROBLEM], Faults(tmp_path / "log"))
    assert [*identity.recognize(read, store)] == ["'17' is called 'ada (17)' now"]
    store.close()
    assert marks(results)["ada (17)", "p07"] == 3


ADA, MALLORY, ONE, TWO = (
    Person("Ada Lovelace (1001)", ("1001",)),
    Person("1001 (1002)", ("1002",)),
    Person("Bob (1003)", ("1003", "bob@uni.example")),
    Person("Bob (1004)", ("1004",)),
)


@pytest.mark.parametrize(
    ("word", "learner"),
    [
        ("1001", ADA), ("1002", MALLORY), ("1001 (1002)", MALLORY), ("ada lovelace", ADA), ("BOB@uni.example", ONE),
        ("Bob (1004)", TWO), ("Eve", None),
    ],
)  # fmt: skip
def test_an_id_comes_before_a_name_that_a_learner_chose(word: str, learner: Person | None):
    assert identity.Directory([ADA, MALLORY, ONE, TWO]).find(word) == learner


def test_a_name_of_several_learners_means_nobody():
    directory = identity.Directory([ADA, MALLORY, ONE, TWO])
    with pytest.raises(
        UsageError, match=r"'Bob' is the name of more than one learner: 'Bob \(1003\)', 'Bob \(1004\)'\. Name one by"
    ):
        directory.find("Bob")
    assert directory.words(ONE) == ("Bob (1003)", "1003", "bob@uni.example")
    assert directory.words(MALLORY) == ("1001 (1002)", "1002")
    assert identity.Directory([ADA, ONE]).words(ONE) == ("Bob (1003)", "1003", "bob@uni.example", "Bob")


def test_points_that_change_are_those_of_every_stored_result(tmp_path: Path):
    """What is stored is which checks passed. A result with other checks keeps its own points."""
    rows = [CheckRow(check.name, check.name != "gradient", check.points, "", Verdict.PASS) for check in PROBLEM.checks]
    report = PublicReport(PROBLEM.name, Verdict.FAIL, 5, 6, tuple(rows), executed=False)
    store = Store(tmp_path / "results")

    def put(learner: str, stored: PublicReport) -> None:
        attempt = StoredAttempt(learner, NAME, learner, "k", "f.py", "FAIL", stored.score, stored.points, report=stored)
        store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)

    put("ada", report)
    put("bob", replace(report, checks=report.checks[:2]))
    store.apply_points({NAME: {check.name: 2 * check.points for check in PROBLEM.checks}})
    records = {record.learner: record for record in store.records()}
    store.close()
    assert [(records[name].score, records[name].points) for name in ("ada", "bob")] == [(10, 12), (5, 6)]
    assert records["ada"].report is not None
    assert [check.points for check in records["ada"].report.checks] == [2 * check.points for check in PROBLEM.checks]
