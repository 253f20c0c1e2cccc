"""Several attempts, deadlines, grading again, rosters: a class over some weeks, as a teacher runs it."""

import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import command, listing
from grader.batch.listing import Filter
from grader.batch.options import BatchOptions
from grader.course import catalog
from tests.conftest import Grade
from tests.grader.batch.conftest import GOOD, NAME, WRONG, Submit, rows, table, zipped

PROBLEM = catalog.load(NAME)
TITLE = f"{PROBLEM.label} {PROBLEM.title}"
DEADLINES = (
    "due: 2026-11-02 23:59\ngrace: 10 minutes\nlate_days: 1\npenalty: 25%\nextensions: {s18: 1 week, nobody: 1 day}\n"
)
ROSTER = "Student,ID,SIS User ID,Section\nAda,7,s17,A\nBob,8,s18,A\nCleo,9,s19,A\n"


def export(path: Path, *submissions: tuple[str, str, str]) -> Path:
    """A Gradescope export of (student id, time, text)."""
    metadata, files = "", {}
    for number, (student, time, text) in enumerate(submissions):
        name = {"s17": "Ada", "s18": "Bob"}[student]
        metadata += (
            f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :sid: {student}\n  :created_at: {time} Z\n"
        )
        files[f"export/submission_{number}/loss.py"] = text
    return zipped(path, {"export/submission_metadata.yml": metadata, **files})


def results(out: Path) -> dict[str, tuple[str, ...]]:
    return {name: (row["verdict"], row["score"], row["adjusted"], row["late"]) for name, row in rows(out).items()}


@pytest.mark.thorough
def test_a_class_over_some_weeks(grade: Grade, seed: Path, tmp_path: Path):
    out, rules, students = tmp_path / "results", tmp_path / "deadlines.yaml", tmp_path / "roster.csv"
    rules.write_text(DEADLINES)
    students.write_text(ROSTER)
    options = ("--out", out, "--problems", "07", "--seed-file", seed, "--deadlines", rules, "--roster", students)
    late, on_time = "2026-11-04 10:00:00", "2026-11-02 12:00:00"
    first = export(tmp_path / "1.zip", ("s17", on_time, WRONG), ("s17", late, GOOD), ("s18", late, GOOD))
    run = grade("batch", first, *options, "--format", "canvas")
    assert run.code == 0, run.err
    assert "Note: the extension for 'nobody' is for no learner of this class." in run.out
    assert results(out) == {
        "Ada (s17)": ("PASS", "6", "4.5", "2 days late, 1 late day spent, 25% off"),
        "Bob (s18)": ("PASS", "6", "6", ""),
        "Cleo (9)": ("NOT ATTEMPTED", "0", "0", ""),
    }
    assert "loss.py was graded, the latest of 2 versions by the export's time stamps" in rows(out)["Ada (s17)"]["notes"]
    assert rows(out)["Ada (s17)"]["submitted"] == "2026-11-04T10:00:00+00:00"
    for name, mark in {
        "gradebook.csv": "4.5",
        "gradebook-raw.csv": "6",
        "canvas.csv": "4.5",
        "canvas-raw.csv": "6",
    }.items():
        assert mark in {row[TITLE] for row in table(out / name) if row["ID"] == "7"}
    with closing(sqlite3.connect(out / "results.sqlite")) as database:
        assert database.execute("select score, adjusted from records where learner like 'Ada%'").fetchone() == (6, 4.5)

    # A worse attempt never erases a better one, unless asked. Both stay in the database.
    second = export(tmp_path / "2.zip", ("s17", late, GOOD), ("s18", "2026-11-05 10:00:00", WRONG))
    run = grade("batch", second, *options)
    assert "To grade: 1. Unchanged: 1." in run.out
    assert results(out)["Bob (s18)"] == ("PASS", "6", "6", "")
    assert rows(out)["Bob (s18)"]["attempts"] == "2"
    run = grade("batch", second, *options, "--keep", "last")
    assert "To grade: 0. Unchanged: 2." in run.out
    assert results(out)["Bob (s18)"] == ("FAIL", "1", "1", "")
    assert results(out)["Ada (s17)"][:3] == ("PASS", "6", "4.5")

    # A file that is forgotten is that of the last batch. Graded again, with a record; without deadlines, no raw score
    # changes.
    forgotten = grade("batch", second, "--out", out, "--problems", "07")
    assert forgotten.code == 0, forgotten.err
    assert f"Note: --deadlines is {rules}, as in the last batch; --without deadlines leaves it out." in forgotten.out
    assert results(out)["Ada (s17)"][:3] == ("PASS", "6", "4.5")
    run = grade(
        "batch",
        second,
        "--out",
        out,
        "--problems",
        "07",
        "--seed-file",
        seed,
        "--without",
        "deadlines",
        "--without",
        "roster",
        "--regrade",
        "s18:07",
        "--because",
        "he asked",
    )
    assert run.code == 0, run.err
    assert "To grade: 2. Unchanged: 1." in run.out
    assert "Regraded Bob (s18), problem 07: FAIL, 1 -> FAIL, 1 (he asked)." in run.out
    assert "Mark: Ada (s17), problem 07: 4.5 -> 6 (the deadlines changed" in run.out
    assert not (out / "canvas.csv").exists()
    assert (out / "earlier" / "canvas.csv").exists()
    assert results(out)["Ada (s17)"] == ("PASS", "6", "6", "")
    assert "Cleo (9)" not in results(out)
    assert {(row["because"], row["verdict_before"], row["verdict_after"]) for row in table(out / "regrades.csv")} == {
        ("he asked", "PASS", "PASS"), ("he asked", "FAIL", "FAIL"),
    }  # fmt: skip
    run = grade("results", out, "--learner", "BOB", "--problem", "07")
    assert run.code == 0, run.err
    assert "Regraded 20" in run.out
    assert run.out.endswith("1 learner: 1 PASS; 6 of 6 points.\n")
    for filter_, count in [(Filter(), 2), (Filter(verdict="pass"), 2), (Filter(learner="ada"), 1)]:
        shown = list(listing.lines(out, filter_))
        assert len([line for line in shown if f"  {PROBLEM.label}  " in line]) == count
    with pytest.raises(UsageError, match="No result in"):
        list(listing.lines(out, Filter(misconception="no such idea")))


@pytest.mark.thorough
def test_an_export_of_a_part_of_the_class_takes_nothing_from_the_others(submit: Submit, tmp_path: Path):
    out, folder = tmp_path / "results", submit("ada")
    submit("bob", b"\0", "07.py")
    (folder / "cleo").mkdir()
    lines = list(command.batch(folder, out, BatchOptions(jobs=1)))
    drawn_by = f"by NumPy {version('numpy')} and JAX {version('jax')}."
    assert f"The hidden cases are drawn with the seed in {out / 'seed.txt'}, {drawn_by}" in lines
    assert results(out)["cleo"] == ("NOT ATTEMPTED", "0", "0", "")
    (folder / "ada" / f"{NAME}.py").unlink()
    (folder / "ada").rmdir()
    (tmp_path / "other").write_text("another seed")
    students, rules = tmp_path / "roster.csv", tmp_path / "deadlines.yaml"
    students.write_text("Student,ID,SIS Login ID\nLovelace,ada,al\nBabbage,bob,bb\n")
    rules.write_text("due: 2026-11-02\nextensions: {al: 1 week}\n")
    options = BatchOptions(jobs=1, roster=students, deadlines=rules)
    lines = list(command.batch(folder, out, options))
    assert "Note: these submissions have no times, so none is late." in lines
    assert not [line for line in lines if "the extension for" in line]
    (note,) = (line for line in lines if "the earlier ones count" in line)
    assert note.startswith("Note: 1 learner with earlier submissions in")
    assert note.endswith("count: ada.")
    assert results(out)["ada"] == ("PASS", "6", "6", "")
    assert [row[TITLE] for row in table(out / "gradebook.csv")] == ["6", "0"]
    submit("bob", b"\0", "08.py")
    lines = list(command.batch(folder, out, BatchOptions(jobs=1, problems="08", seed_file=tmp_path / "other")))
    assert any("not the stored results of 07." in line for line in lines)
    assert "Note: existing results are from another seed and will be regraded." in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BatchOptions(problems=" "), "--problems is empty"),
        (BatchOptions(regrade=("ada",)), "--regrade-check need --because"),
        (BatchOptions(because="why"), "--because needs one of these"),
        (BatchOptions(regrade=("ada:08",), because="x"), "problem 08 is not graded in this batch"),
        (BatchOptions(regrade=("bab",), because="x"), "there is no learner 'bab' in this class. Did you mean 'bob'?"),
        (BatchOptions(regrade=("bob",), because="x"), "has no submission of 'bob' for problem 07 to grade again"),
        (BatchOptions(deadlines=Path("nowhere")), "The deadlines nowhere cannot be read"),
        (BatchOptions(roster=Path("nowhere")), "The roster nowhere cannot be read"),
    ],
)
def test_usage_errors(submit: Submit, tmp_path: Path, options: BatchOptions, message: str):
    submit("ada", b"\0", "07.py")
    folder = submit("bob", b"", "notes.txt")
    with pytest.raises(UsageError) as error:
        list(command.batch(folder, tmp_path / "results", options))
    assert message in str(error.value)
    with pytest.raises(UsageError, match="contains no results"):
        list(listing.lines(folder, Filter()))


BY_SECTION = """
due: {07: {A: 2026-11-02, B: 2099-11-04, others: 2026-11-01}}
closes: {07: {A: 2026-11-03, B: 2099-12-01}}
penalty: 50%
excused: {s19: 07}
late_days: {eve: 3}
"""


@pytest.mark.thorough
def test_sections_closing_dates_and_excuses(tmp_path: Path):
    """What each learner's section has counts, and before the due date learners are told less."""
    out, rules, students, pages = (tmp_path / name for name in ("results", "deadlines.yaml", "roster.csv", "pages"))
    rules.write_text(BY_SECTION)
    students.write_text("Student,ID,SIS User ID,Section\nAda,7,s17,A\nBob,8,s18,B\nCleo,9,s19,\n")
    options = BatchOptions(
        "07",
        deadlines=rules,
        roster=students,
        feedback=pages,
        reveal="verdict",
        reveal_after_due="idea",
        formats=("text",),
    )
    first = export(tmp_path / "1.zip", ("s17", "2026-11-02 10:00:00", WRONG), ("s18", "2026-11-04 10:00:00", WRONG))
    lines = list(command.batch(first, out, options))
    assert "Note: the number of late days for 'eve' is for no learner of this class." in lines
    assert rows(out)["Cleo (9)"]["excused"] == "excused"
    assert [row[TITLE] for row in table(out / "gradebook.csv")] == ["1", "1", "EX"]
    ada, bob, cleo = (page.read_text() for page in sorted(pages.glob("*.html")))
    assert ("targets not shifted" in ada, "targets not shifted" in bob) == (True, False), "Bob's section is not due"
    assert "a number differs" not in ada + bob
    assert "targets not shifted" in (out / "text" / "Ada (s17).txt").read_text()
    assert "targets not shifted" not in (out / "text" / "Bob (s18).txt").read_text()
    assert "<td>excused</td>" in cleo
    assert "of 0 points" in cleo
    assert ", not handed in" in (out / "summary.html").read_text()

    later = export(tmp_path / "2.zip", ("s17", "2026-11-04 10:00:00", GOOD), ("s18", "2026-11-04 10:00:00", WRONG))
    lines = list(command.batch(later, out, BatchOptions("07", feedback=pages, show_cases=True)))
    assert "Note: --reveal is verdict, as in the last batch." in lines
    assert results(out)["Ada (s17)"] == ("FAIL", "1", "1", ""), "the better file came after the problem had closed"
    assert "Note: the pages show secret cases of problem 07, which can still be handed in on time." in lines
    assert "Smallest failing case" not in "".join(page.read_text() for page in pages.glob("*.html")), (
        "everybody is told verdicts only"
    )
    lines = list(command.batch(later, tmp_path / "new", BatchOptions("07", deadlines=rules, roster=students)))
    assert results(tmp_path / "new")["Ada (s17)"][1:] == (
        "6",
        "0",
        "not accepted, because it came after the problem closed",
    )


def test_less_is_not_told_after_the_due_date(submit: Submit, tmp_path: Path):
    with pytest.raises(UsageError, match="--reveal-after-due idea tells less than --reveal advice"):
        list(command.batch(submit("ada"), tmp_path / "results", BatchOptions(reveal_after_due="idea")))
