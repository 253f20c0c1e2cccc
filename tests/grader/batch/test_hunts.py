"""Hunts of a class: handed out, answered, marked."""

import csv
import tomllib

import pytest

from commandline.errors import UsageError
from grader.course import catalog
from grader.course.seed import read_seed
from grader.handout import hunts as handout
from grader.practice import assigned
from grader.practice.assigned import Answer
from tests.conftest import Grade

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
    """Ada finds and mends. Bo rewrites, has the wrong line and no idea. Cy hands in Ada's sheet, Di nothing that can be read."""
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
        style = catalog.text_of(PROBLEMS[0], catalog.styles(PROBLEMS[0])[2])
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


def test_options_that_belong_together(grade: Grade):
    assert "--hunts needs --seed-file" in grade("pack", "d", "--hunts", 2).err
    assert "belong to --hunts" in grade("pack", "d", "--learners", "x").err
    assert "--hunts needs --seed-file" in grade("batch", "d", "--out", "r", "--hunts").err
