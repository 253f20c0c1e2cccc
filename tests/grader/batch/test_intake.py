"""The submissions of a class, as course systems export them and as people really send them."""

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import intake
from grader.batch.faults import Faults
from grader.batch.intake import Intake
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, NAME, Submit, zipped


def read(source: Path, *labels: str) -> Intake:
    """The intake of a class for problem 07, or for others."""
    faults = Faults(source.parent / "internal-errors.log")
    submissions = intake.read(source, [catalog.find(label) for label in labels or ("07",)], faults)
    assert not faults.count
    return submissions


def only(submissions: Intake) -> intake.IntakeItem:
    (item,) = submissions.items
    return item


def test_a_folder_for_each_learner(submit: Submit):
    submit("Ada Lovelace")
    submit("Zoë Ünïcode 陳", name=f"attempts/{NAME}.py")
    submissions = read(submit("empty", name="notes.txt"))
    assert submissions.layout == "folders"
    assert submissions.learners == ["Ada Lovelace", "empty", "Zoë Ünïcode 陳"]
    assert [(item.learner, item.submission.sources[NAME]) for item in submissions.items] == [
        ("Ada Lovelace", GOOD), ("Zoë Ünïcode 陳", GOOD),
    ]  # fmt: skip


def test_earlier_problems_beside_a_file_come_with_it(submit: Submit):
    submit("ada", "x = 1\n", "p03_causal_mha.py")
    item = only(read(submit("ada", "from p03_causal_mha import x\n" + GOOD)))
    assert item.submission.sources["p03_causal_mha"] == "x = 1\n"


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_with_a_folder_around(tmp_path: Path, submit: Submit, kind: str):
    submit("ada")
    folder = submit("bob")
    path = tmp_path / f"all.{kind}"
    if kind == "zip":
        zipped(path, {f"class/{file.relative_to(folder)}": file.read_text() for file in folder.rglob("*.py")})
    else:
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "class")
    assert read(path).learners == ["ada", "bob"]
    assert len(read(path).items) == 2


def ids(submissions: Intake) -> dict[str, tuple[str, ...]]:
    return {name: person.ids for name, person in submissions.people.items()}


def test_gradescope(tmp_path: Path):
    metadata = """
submission_101:
  :submitters:
  - :name: Ada Lovelace
    :sid: '17'
    :email: ada@example.org
  :created_at: 2026-11-01 10:00:00.000000000 Z
submission_102:
  :submitters:
  - :name: Bob
    :sid: ''
    :email: bob@example.org
  - :name: Cleo
"""
    source = zipped(tmp_path / "export.zip", {
        "assignment_1_export/submission_metadata.yml": metadata,
        f"assignment_1_export/submission_101/{NAME}.py": GOOD,
        f"assignment_1_export/submission_102/{NAME}.py": GOOD,
    })  # fmt: skip
    submissions = read(source)
    assert (submissions.layout, submissions.learners) == (
        "Gradescope",
        ["Ada Lovelace (17)", "Bob (bob@example.org)", "Cleo"],
    )
    assert ids(submissions) == {"Ada Lovelace (17)": ("17",), "Bob (bob@example.org)": ("bob@example.org",), "Cleo": ()}
    assert [item.submitted for item in submissions.items] == [datetime(2026, 11, 1, 10, tzinfo=UTC), None, None]
    assert [item.members for item in submissions.items] == ["", *["Bob (bob@example.org) and Cleo"] * 2]


def test_what_a_learner_and_a_group_hand_in_are_two_submissions(tmp_path: Path):
    row = "submission_{}:\n  :submitters:\n{}"
    ada, bob = ("  - :name: {}\n    :sid: '{}'\n".format(*one) for one in (("Ada", "17"), ("Bob", "18")))
    metadata = row.format(1, ada + bob) + row.format(2, bob)
    files = {f"export/submission_1/{NAME}.py": "x = 1\n", f"export/submission_2/{NAME}.py": "x = 2\n"}
    submissions = read(zipped(tmp_path / "e.zip", {"export/submission_metadata.yml": metadata, **files}))
    assert [(item.learner, item.members, item.submission.sources[NAME]) for item in submissions.items] == [
        ("Ada (17)", "Ada (17) and Bob (18)", "x = 1\n"),
        ("Bob (18)", "", "x = 2\n"),
        ("Bob (18)", "Ada (17) and Bob (18)", "x = 1\n"),
    ]  # fmt: skip


def test_gradescope_submissions_of_the_same_person_are_one_learners(tmp_path: Path):
    row = "submission_{}:\n  :submitters:\n  - :name: {}\n    :sid: '{}'\n  :created_at: 2026-11-0{} 10:00:00 Z\n"
    people = [("Ada", "17", 2), ("Ada", "17", 1), ("Ada", "18", 1), ("Eve (17)", "", 1), ("Eve (17)", "", 1)]
    files = {f"export/submission_{n}/{NAME}.py": f"x = {n}\n" for n in range(len(people))}
    metadata = "".join(row.format(n, *person) for n, person in enumerate(people))
    submissions = read(zipped(tmp_path / "e.zip", {"export/submission_metadata.yml": metadata, **files}))
    assert {item.learner: item.submission.sources[NAME] for item in submissions.items} == {
        "Ada (17)": "x = 0\n", "Ada (18)": "x = 2\n", "Eve (17), submission_3": "x = "
            "3\n", "Eve (17), submission_4": "x = 4\n",
    }  # fmt: skip
    assert ids(submissions)["Eve (17), submission_3"] == (), "a name is no id"


def test_canvas(tmp_path: Path):
    source = zipped(tmp_path / "submissions.zip", {
        f"lovelaceada_17_5001_{NAME}.py": "old",
        f"lovelaceada_17_5002_{NAME}-1.py": GOOD,
        f"bobson_LATE_18_5003_{NAME}.py": GOOD,
    })  # fmt: skip
    submissions = read(source)
    assert (submissions.layout, submissions.learners) == ("Canvas", ["bobson (18)", "lovelaceada (17)"])
    assert [item.submission.sources[NAME] for item in submissions.items] == [GOOD, GOOD]
    assert "the latest of 2 versions by the order of uploads" in submissions.items[1].notes[0]
    assert [item.late for item in submissions.items] == [True, False]
    assert ids(submissions) == {"bobson (18)": ("18",), "lovelaceada (17)": ("17",)}


def test_an_anonymous_export_of_canvas(tmp_path: Path):
    source = zipped(
        tmp_path / "s.zip",
        {
            f"anon_AbC12_LATE_5001_{NAME}.py": GOOD,
            f"anon_x9Yz0_5002_{NAME}.py": GOOD,
            f"studenttest_19_5003_{NAME}.py": GOOD,
        },
    )
    submissions = read(source)
    assert [(item.learner, item.late) for item in submissions.items] == [("anon_AbC12", True), ("anon_x9Yz0", False)]
    assert not any(person.canvas for person in submissions.people.values())
    assert submissions.notes == [
        "1 file of Canvas' Test Student left out", "the export is anonymous, so marks are by anonymous id"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["Ada Lovelace_17_assignsubmission_file/{}", "Ada Lovelace_17_assignsubmission_file_{}"]
)
def test_moodle(tmp_path: Path, name: str):
    submissions = read(zipped(tmp_path / "export.zip", {name.format(f"{NAME}.py"): GOOD}))
    assert (submissions.layout, submissions.learners) == ("Moodle", ["Ada Lovelace (17)"])
    assert only(submissions).submission is not None


def test_a_workspace_submitted_as_a_zip(submit: Submit, tmp_path: Path):
    inner = zipped(tmp_path / "inner.zip", {f"attempts/{NAME}.py": GOOD, "attempts/.progress.json": "{}"})
    assert only(read(submit("ada", inner.read_bytes(), "work.zip"))).submission.sources[NAME] == GOOD


def test_names_that_mean_the_problem(submit: Submit):
    for learner, name in {"a": "07.py", "b": "p07.py", "c": "next_token_loss.py", "d": f"{NAME} (2).py"}.items():
        submissions = read(submit(learner, name=name))
    assert [item.learner for item in submissions.items if item.submission] == ["a", "b", "c", "d"]
    assert submissions.items[0].notes == ("07.py was taken as the submission",)


def test_two_files_for_one_problem(submit: Submit):
    submit("ada", name=f"one/{NAME}.py")
    item = only(read(submit("ada", name=f"two/{NAME}.py")))
    assert item.refused == f"there are two files for it: one/{NAME}.py and two/{NAME}.py; submit one"


def test_files_that_are_not_used_are_listed_with_the_reason(submit: Submit):
    inner = zipped(submit("ada").parent / "inner.zip", {f"{NAME}.py": GOOD}).read_bytes()
    for name, content in {
        "07 (1).py": GOOD, "notes.txt": "", "plan.py": "x = 1\n", "p08_train_step.py": "", "work.zip": "x",
        "p03_causal_mha.py": "",
    }.items():  # fmt: skip
        submit("ada", content, name)
    submit("ada", "from p03_causal_mha import x\n" + GOOD)
    submit("bob", zipped(submit("bob").parent / "outer.zip", {"inner.zip": inner}).read_bytes(), "all.zip")
    submissions = read(submit("bob"))
    assert {f"{file.learner}/{file.file}": file.reason for file in submissions.unused} == {
        "ada/07 (1).py": f"is not the submission for its problem: {NAME}.py was graded, "
        "the one of 2 files with the problem's exact name",
        "ada/notes.txt": "is neither a .py file nor a notebook",
        "ada/plan.py": "has no problem's name",
        "ada/p08_train_step.py": "is for problem 08, which is not graded here",
        "ada/work.zip": "is damaged: File is not a zip file",
        "bob/all/inner.zip": "is an archive inside an archive; submit the files themselves",
    }  # fmt: skip


def test_what_a_file_defines_counts_where_no_name_does(submit: Submit):
    """Problems are found by names first: a helper that somebody calls `generate` is no submission for problem 29."""
    faults = Faults(submit("ada", "def generate(): ...\n" + GOOD, "mine.py").parent / "log")
    alone = intake.read(submit("ada", "", "notes.txt"), None, faults)
    assert [problem.label for problem in alone.problems] == ["07", "29"]
    beside = intake.read(submit("bob", GOOD, "7.py"), None, faults)
    assert [problem.label for problem in beside.problems] == ["07"]
    assert [(item.learner, item.file) for item in beside.items] == [("ada", "mine.py"), ("bob", "7.py")]
    assert beside.items[0].notes == ("mine.py was taken as the submission",)


def test_a_whole_course_of_one_learner(submit: Submit, tmp_path: Path):
    """The limit on files that are searched for definitions is none on files with the name of a problem."""
    for name in catalog.names():
        folder = submit("ada", GOOD, f"{name}.py")
    intake_ = intake.read(folder, None, Faults(tmp_path / "log"))
    assert [item.problem for item in intake_.items] == sorted(catalog.names())
    assert intake_.unused == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0", "binary file"), ("import jax".encode("utf-16"), "is UTF-16 text, which Windows PowerShell and some"),
        ("import jax".encode("utf-16-be"), "save it as UTF-8."),
        (b"# caf\xe9", "not UTF-8"), (b"x" * (2 << 20), "larger than 1 MiB"),
    ],
    ids=lambda value: repr(value)[:20],  # pytest hands it to every process that a test starts
)  # fmt: skip
def test_unreadable_files(submit: Submit, data: bytes, message: str):
    assert message in only(read(submit("ada", data))).refused


def test_refused_files_say_why(submit: Submit, tmp_path: Path):
    folder = submit("ada", name="notes.txt")
    (folder / "ada" / f"{NAME}.py").symlink_to(tmp_path / "secret")
    (folder / "bob").symlink_to(tmp_path)
    submit("cleo", b"not an archive", "work.zip")
    submissions = read(folder)
    refused = {item.learner: item.refused for item in submissions.items}
    assert refused["ada"] == f"{NAME}.py is a symbolic link; replace it with a copy of the file."
    assert refused["cleo"].startswith("no file for it can be read: work.zip is damaged")
    assert refused["bob"] == "no file for it can be read: bob is a symbolic link; replace it with a copy of the file"


def test_nothing_to_read(tmp_path: Path, submit: Submit):
    with pytest.raises(UsageError, match="There is no folder or archive"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no learners' folders"):
        read(tmp_path / "empty")


def test_learners_who_may_be_the_same(submit: Submit):
    submit("Ada")
    assert read(submit("ada")).notes == ["'Ada' and 'ada' may be the same learner"]
