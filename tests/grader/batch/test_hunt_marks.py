"""Hunts of a class: handed out, answered, marked."""

import csv
import tomllib
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.course import catalog
from grader.course.seed import read_seed
from grader.handout import hunt_sheets as handout
from grader.practice import assigned
from grader.practice.assigned import Answer
from tests.conftest import Grade
from tests.grader.batch.conftest import zipped

PROBLEMS = [catalog.find("02"), catalog.find("07")]


def test_learners_get_other_hunts_and_everybody_the_same():
    orders = [[hunt.id for hunt in assigned.order(PROBLEMS, 5, name)] for name in ("Ada", "Bo", "", "")]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert orders[0][:3] != orders[1][:3]
    assert orders[2] == orders[3]
    assert assigned.order(PROBLEMS, 5, "Ada")[:3] != assigned.order(PROBLEMS, 6, "Ada")[:3]


def test_an_answer_about_the_hunt_of_another_learner_is_none():
    (mine, *_), (other, *_) = ([hunt.id for hunt in assigned.order(PROBLEMS, 5, name)] for name in ("Ada", "Bo"))
    program = assigned.assigned(PROBLEMS, 5, "Ada", Answer("hunt_1.py", assigned.marked(mine, 5, "Ada")))
    assert program is not None
    assert program.hunt.id == mine
    for id_ in (mine, assigned.marked(mine, 6, "Ada"), assigned.marked(other, 5, "Bo"), f"{other}-0123456789ab"):
        assert assigned.assigned(PROBLEMS, 5, "Ada", Answer("hunt_1.py", id_)) is None, "the sheet cannot make marks"


def test_answers_that_are_none():
    of, answers = assigned.answers(
        'learner = "Ada"\n[hunt_1]\nid = "x"\nline = "7"\nidea = " b "\n[hunt_2]\n[x]\nline = 3\n'
    )
    assert of == "Ada"
    assert answers == [Answer("hunt_1.py", "x", 0, "B"), Answer("hunt_2.py"), Answer("x.py", "", 3)]
    with pytest.raises(ValueError, match="Expected"):
        assigned.answers("[hunt")


@pytest.mark.parametrize("text", ["../Ada\n", "..\n", "a\\b\n"])
def test_learners_who_cannot_be_folders_are_refused(tmp_path, text):
    (tmp_path / "learners.txt").write_text(text)
    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        handout.read_learners(tmp_path / "learners.txt")


def test_from_the_teacher_to_the_marks(grade: Grade, tmp_path):
    """Ada finds and mends. Bo rewrites, has the wrong line and no idea. Cy hands in Ada's sheet, Di nothing that can be
    read."""
    (tmp_path / "learners.txt").write_text("Ada\nBo\n")
    out = grade("pack", "hunts", "--hunts", 1, "--problems", "02", "--seed-file", "s.txt", "--learners", "learners.txt")
    assert (out.code, out.err) == (0, "")
    assert out.out.splitlines() == ["Ada: hunts in 02", "Bo: hunts in 02"]
    seed = read_seed(tmp_path / "s.txt")
    sheets = {}
    for name in ("Ada", "Bo"):
        folder = tmp_path / "hunts" / name
        sheets[name] = (folder / "answers.toml").read_text()
        row = tomllib.loads(sheets[name])["hunt_1"]
        program = assigned.assigned(PROBLEMS[:1], seed, name, Answer("hunt_1.py", row["id"]))
        assert program is not None
        assert (folder / "hunt_1.py").read_text() == program.text
        done = tmp_path / "class" / name
        done.mkdir(parents=True)
        right = name == "Ada"
        letter = "ABCD"[program.answer] if right else ""
        answered = sheets[name].replace("line = 0", f"line = {min(program.fault) if right else 1}")
        (done / "answers.toml").write_text(answered.replace('idea = ""', f'idea = "{letter}"'))
        style = catalog.text_of(catalog.styles(PROBLEMS[0])[2])
        (done / "hunt_1.py").write_text(program.correct if right else style)
    for name, text in {"Cy": sheets["Ada"], "Di": "[[", "Ed": "a = " + "[" * 60_000}.items():
        (tmp_path / "class" / name).mkdir()
        (tmp_path / "class" / name / "answers.toml").write_text(text)
    marked = grade("batch", "class", "--out", "results", "--hunts", "--problems", "02", "--seed-file", "s.txt",
                   "--accept-isolation", "weak")  # fmt: skip
    assert (marked.code, marked.err) == (0, "")
    assert "Ada: 3 of 3 points" in marked.out
    with (tmp_path / "results" / "hunts.csv").open(encoding="utf-8-sig") as table:
        rows = {row["learner"]: row for row in csv.DictReader(table)}
    assert [rows[name]["points"] for name in ("Ada", "Bo", "Cy", "Di")] == ["3", "0", "0", "0"]
    assert rows["Bo"]["note"] == "a rewrite"
    assert (rows["Cy"]["sheet of"], rows["Cy"]["note"]) == ("Ada", "the sheet is that of Ada")
    assert "cannot be read" in rows["Di"]["note"]
    assert rows["Ed"]["note"] == "the sheet cannot be read: its files are nested too deeply to be read"

    metadata, files = "", dict[str, str]()
    for number, name in enumerate(("Ada", "Bo", "Flo")):
        metadata += f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :sid: s{number}\n"
        metadata += "  :created_at: 2026-11-04 10:00:00 Z\n"
        for path in (tmp_path / "class" / name).glob("*"):
            files[f"export/submission_{number}/{path.name}"] = path.read_text()
    files |= {"export/submission_metadata.yml": metadata, "export/submission_2/hunt_1.py": "x = 1\n"}
    zipped(tmp_path / "export.zip", files)
    (tmp_path / "roster.csv").write_text(
        "Student,ID,SIS User ID,Section\nAda,7,s0,A\nBo,8,s1,A\nFlo,9,s2,A\nGil,10,s3,A\n"
    )
    (tmp_path / "rules.yml").write_text(
        "due: {01-70: 2026-12-24, hunts: 2026-11-03}\nlate_days: 5\npenalty: 10%\nexcused: {s3: hunts}\n"
    )
    marked = grade(
        "batch",
        "export.zip",
        "--out",
        "results",
        "--hunts",
        "--problems",
        "02",
        "--seed-file",
        "s.txt",
        "--format",
        "canvas",
        "--accept-isolation",
        "weak",
        "--roster",
        "roster.csv",
        "--deadlines",
        "rules.yml",
    )
    assert (marked.code, marked.err) == (0, "")
    assert "Ada (s0): 3 of 3 points, 1 day late, 10% off: 2.7" in marked.out
    with (tmp_path / "results" / "hunts.csv").open(encoding="utf-8-sig") as table:
        notes = {row["learner"]: row["note"] for row in csv.DictReader(table)}
    assert notes["Flo (s2)"] == "there is no answers.toml among the files"
    for book in ("hunts-canvas.csv", "hunts-gradebook.csv"):
        with (tmp_path / "results" / book).open(encoding="utf-8-sig") as table:
            marks = {row["Student"].strip(): row["Hunts"] for row in csv.DictReader(table)}
        assert {name: marks[name] for name in ("Ada", "Bo", "Flo", "Gil")} == {
            "Ada": "2.7", "Bo": "0", "Flo": "0", "Gil": "EX",
        }  # fmt: skip


def test_options_that_belong_together(grade: Grade, tmp_path: Path):
    assert "--hunts needs --seed-file" in grade("pack", "d", "--hunts", 2).err
    assert "belong to --hunts" in grade("pack", "d", "--learners", "x").err
    assert "--hunts needs --seed-file" in grade("batch", "d", "--out", "r", "--hunts").err
    assert "--hunts does not take --keep" in grade("batch", "d", "--out", "r", "--hunts", "--keep", "last").err
    (tmp_path / "s.txt").write_text("x")
    with_format = ("--hunts", "--seed-file", "s.txt", "--format", "junit")
    assert "--hunts has gradebooks only" in grade("batch", "d", "--out", "r", *with_format).err
