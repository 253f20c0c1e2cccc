"""Rosters: gradebooks as Canvas and Moodle export them, matched by id and given back with the marks."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import intake, roster
from grader.batch.faults import Faults
from grader.batch.gradebook import Assignment, write_export
from grader.batch.intake import Intake
from grader.batch.records import Record
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, NAME, table, zipped

pytestmark = pytest.mark.fast

PROBLEM = catalog.load(NAME)
TITLE = f"{PROBLEM.label} {PROBLEM.title}"
CANVAS = f"""Student,ID,SIS User ID,SIS Login ID,Section,Essay (11),{TITLE} (4711),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,6,(read only)
"Lovelace, Ada",17,s17,ada@x.org,A,9,,81
"Hopper, Grace",18,s18,grace@x.org,A,8,5,70
"Student, Test",19,,19abc,A,,,
"""
MOODLE = """Identifier,"Full name","Email address",Status,Grade,"Maximum Grade",\
"Last modified (submission)","Feedback comments"
Participant 17,"Ada Lovelace",ada@x.org,Submitted,,100.00,"Friday, 20 November 2026, 10:05 AM",
Participant 18,"Grace Hopper",grace@x.org,"No submission",-,100.00,-,
"""


def read(tmp_path: Path, text: str) -> roster.Roster:
    path = tmp_path / "export.csv"
    path.write_text(text, encoding="utf-8-sig")
    return roster.read(path)


def canvas_class(tmp_path: Path) -> Intake:
    source = zipped(tmp_path / "s.zip", {f"lovelaceada_17_5001_{NAME}.py": GOOD, f"eve17_99_5002_{NAME}.py": GOOD})
    return intake.read(source, [PROBLEM], Faults(tmp_path / "log"))


def gradebook(tmp_path: Path, rows: roster.Roster, enrollment: roster.Enrollment, mark: float) -> list[dict[str, str]]:
    (first,) = (
        learner for place, learner in enrollment.learner_of.items() if "Ada" in "".join(rows.rows[place].values())
    )
    record = Record(first, NAME, "", "", "FAIL", 6, 6, adjusted=mark)
    return table(write_export(rows, enrollment, [record], [Assignment.of(PROBLEM)], tmp_path / "gradebook.csv"))


def test_canvas_gets_its_own_columns_back(tmp_path: Path):
    rows, submissions = read(tmp_path, CANVAS), canvas_class(tmp_path)
    enrollment = roster.enroll(rows, submissions)
    excused = [Record("lovelaceada (17)", NAME, "", "", "FAIL", 6, 6, excused=True)]
    book = table(write_export(rows, enrollment, excused, [Assignment.of(PROBLEM)], tmp_path / "gradebook.csv"))
    assert [row[f"{TITLE} (4711)"] for row in book[2:4]] == ["EX", "0"]
    assert submissions.learners == ["eve17 (99)", "Hopper, Grace (18)", "lovelaceada (17)"]
    assert enrollment.notes == [
        "'eve17 (99)' is not in the roster, and so in no gradebook",
        "1 student of the roster handed in nothing. Canvas' export has the file of only one member of each group: if "
        "they worked in groups, name these with --groups",
    ]
    assert submissions.people["lovelaceada (17)"].canvas == ("17",)
    _, points, ada, grace, _ = gradebook(tmp_path, rows, enrollment, 5.5)
    column = f"{TITLE} (4711)"
    assert list(ada) == CANVAS.splitlines()[0].split(",")
    assert (ada["Student"], ada["ID"], ada["Essay (11)"], ada[column]) == ("Lovelace, Ada", "17", "9", "5.5")
    assert (grace[column], points[column], points["Final Score"]) == ("0", "6", "(read only)")


def test_students_are_matched_by_any_of_their_ids_never_by_name(tmp_path: Path):
    rows = read(tmp_path, CANVAS)
    for name in ("S17", "ada@x.org", "17"):
        folder = tmp_path / f"class {name}"
        (folder / name).mkdir(parents=True)
        (folder / name / "07.py").write_text(GOOD)
        (folder / "Lovelace, Ada (18)").mkdir()
        (folder / "Lovelace, Ada (18)" / "07.py").write_text(GOOD)
        submissions = intake.read(folder, [PROBLEM], Faults(tmp_path / "log"))
        enrollment = roster.enroll(rows, submissions)
        assert enrollment.learner_of[2] == name
        assert enrollment.notes == ["'Lovelace, Ada (18)' is not in the roster, and so in no gradebook"]


def test_a_moodle_worksheet_gets_the_grade_and_has_the_times(tmp_path: Path):
    rows = read(tmp_path, MOODLE)
    source = zipped(tmp_path / "s.zip", {f"Ada Lovelace_17_assignsubmission_file/{NAME}.py": GOOD})
    submissions = intake.read(source, [PROBLEM], Faults(tmp_path / "log"))
    enrollment = roster.enroll(rows, submissions)
    assert submissions.learners == ["Ada Lovelace (17)", "Grace Hopper (18)"]
    assert submissions.items[0].submitted == datetime(2026, 11, 20, 10, 5)
    ada, grace = gradebook(tmp_path, rows, enrollment, 4.5)
    assert (ada["Grade"], ada["Maximum Grade"], ada["Status"], ada[TITLE]) == ("75.00", "100.00", "Submitted", "4.5")
    assert (grace["Grade"], grace["Identifier"], grace["Full name"]) == ("0.00", "Participant 18", "Grace Hopper")
    excused = [Record(name, NAME, "", "", "FAIL", 6, 6, excused=True) for name in submissions.learners]
    both = PROBLEM, catalog.find("01")
    path = write_export(rows, enrollment, excused, [*map(Assignment.of, both)], tmp_path / "gradebook.csv")
    assert [(row["Grade"], row[TITLE]) for row in table(path)] == [("0.00", "")] * 2, "of problem 01 alone"
    path = write_export(rows, enrollment, excused, [Assignment.of(PROBLEM)], tmp_path / "gradebook.csv")
    assert [row["Grade"] for row in table(path)] == ["", ""], "there is nothing to grade"
    german = read(tmp_path, MOODLE.replace("Friday, 20 November 2026, 10:05 AM", "Freitag, 20. November 2026, 10:05"))
    assert (
        "are not in English" in roster.enroll(german, intake.read(source, [PROBLEM], Faults(tmp_path / "log"))).notes[0]
    )


def folders(tmp_path: Path, *names: str) -> Intake:
    for name in names:
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "07.py").write_text(GOOD)
    return intake.read(tmp_path / "class", [PROBLEM], Faults(tmp_path / "log"))


def test_a_spreadsheet_and_a_mac_write_the_same_ids_otherwise(tmp_path: Path):
    rows = read(tmp_path, "Student,ID,SIS User ID,,\nM,1,M\u00fcller\nO,2,0017\n")
    enrollment = roster.enroll(rows, folders(tmp_path, "mu\u0308ller", "17"))
    assert (enrollment.learner_of, enrollment.notes) == ({0: "mu\u0308ller", 1: "17"}, [])
    both = read(tmp_path, "Student,ID,SIS User ID\nM,1,017\nO,2,0017\n")
    with pytest.raises(UsageError, match="1 of 1 learner"):
        roster.enroll(both, folders(tmp_path / "other", "17"))


def test_a_roster_of_another_class_is_refused(tmp_path: Path):
    with pytest.raises(UsageError) as error:
        roster.enroll(read(tmp_path, CANVAS), folders(tmp_path, "17", "zoe", "yan"))
    assert "2 of 3 learners with submissions are not in the roster, such as 'yan', 'zoe'; the roster has" in str(
        error.value
    )
    assert "'Lovelace, Ada (17)', 'Hopper, Grace (18)'. Nothing was graded." in str(error.value)


def test_a_batch_of_a_hub_may_have_only_somebody_who_is_not_in_the_roster(tmp_path: Path):
    """Such as a teacher who tries it. The next batch has others."""
    intake = replace(folders(tmp_path, "teacher"), layout="hub")
    notes = roster.enroll(read(tmp_path, CANVAS), intake).notes
    assert notes == ["'teacher' is not in the roster, and so in no gradebook"]


def test_an_id_is_first_of_the_most_reliable_kind(tmp_path: Path):
    """The number of one student in Canvas is the number of another one at the school."""
    rows = read(tmp_path, "Student,ID,SIS User ID\nAda,17,18\nGrace,18,19\n")
    assert roster.enroll(rows, folders(tmp_path, "18")).learner_of[1] == "18"


def test_two_names_of_one_student(tmp_path: Path):
    submissions = folders(tmp_path, "17", "s17")
    enrollment = roster.enroll(read(tmp_path, CANVAS), submissions)
    assert [(person.learner, other) for person, other in enrollment.joined] == [("s17", "17")]
    assert (submissions.learners, len(submissions.items)) == (["17", "Hopper, Grace (18)"], 2)
    assert set(submissions.people["17"].ids) == {"17", "s17", "ada@x.org"}


def test_a_roster_of_github_classroom(tmp_path: Path):
    rows = read(tmp_path, "identifier,github_username,github_id,name\ns17,ada-l,4711,Ada\ns18,,,Grace\n")
    enrollment = roster.enroll(rows, folders(tmp_path, "ada-l"))
    assert enrollment.learner_of == {0: "ada-l", 1: "Grace (s18)"}


def test_canvas_skips_no_column_of_ours():
    for title, column in {
        "Final Scores": "07 final scores", "The Current Grade": "07 The current grade", "Attention "
            "(2)": "07 Attention [2]"
    }.items():  # fmt: skip
        assert Assignment.of(replace(PROBLEM, title=title)).title == column
    assert Assignment.of(PROBLEM).title == TITLE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "is no export of a gradebook: it needs the columns Student and ID"),
        ("", "is no export of a gradebook"),
        ("Student,ID\nAda,7\nBob,8\nZoe,7\n", r"has the ID 7 twice, for Ada \(7\) and Zoe \(7\); correct one"),
        ("Vollständiger Name,E-Mail-Adresse\n", "set the language of Moodle to English and export it again"),
        ("Student,ID,ID\n", "has two columns named 'ID'"),
        ('Student,ID\n"' + "x" * 200_000, "is not a CSV file"),
    ],
)
def test_files_that_are_no_rosters(tmp_path: Path, text: str, message: str):
    with pytest.raises(UsageError, match=message):
        read(tmp_path, text)
    with pytest.raises(UsageError, match="cannot be read"):
        roster.read(tmp_path / "nowhere.csv")
    (tmp_path / "latin.csv").write_bytes(b"Student,ID\nZo\xeb,1\n")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        roster.read(tmp_path / "latin.csv")
