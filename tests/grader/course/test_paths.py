"""Paths through the course: what is on them, how one is chosen, and what follows."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from commandline.errors import UsageError
from grader.cli.learner import main
from grader.course import catalog, imports, paths
from grader.course.course import read
from grader.course.workspace import Workspace
from grader.errors import CourseError

pytestmark = pytest.mark.fast


def run(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def passed(space: Workspace, *labels: str) -> None:
    """Notes passes for the files as they are."""
    for label in labels:
        problem = catalog.find(label)
        space.file(problem).write_text(catalog.solution_text(problem))
        space.remember(problem, verdict="PASS", score=problem.points)


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace(Path("attempts"))


def test_a_path_holds_what_its_first_problems_import():
    """The story path is for those who begin, so it asks for nothing that is not on it."""
    story = paths.find("story")
    names = {problem.name for problem in story.problems}
    for problem in story.problems[:-1]:  # the capstone takes any pieces
        assert (
            set(imports.with_imports(problem.name, catalog.solution_text(problem), catalog.references(problem)))
            <= names
        )
    assert paths.every()[-1].problems == tuple(catalog.problems())
    assert all(path.then for path in paths.every()[:-1])
    with pytest.raises(UsageError, match="Did you mean 'story'"):
        paths.find("stroy")


def test_each_problem_says_how_long_it_takes():
    """15 minutes for the page, and two and a half for each line of the reference."""
    assert all(10 <= problem.minutes <= 300 for problem in catalog.problems())
    assert paths.find("story").hours == "about 10 h"


def test_the_next_problem_is_the_next_on_the_path(space: Workspace):
    assert "grade path NAME" in run("path")
    run("start", "--path", "story")
    passed(space, "01", "02", "03")
    assert space.next_problem() == catalog.find("05")
    assert "Your path: A story of your own, 3 of 11 problems passed." in run("next")
    run("path", "everything")
    assert space.next_problem() == catalog.find("04")
    assert "Your path:" not in run("next")
    run("path", "inside")
    assert space.next_problem() == catalog.find("06")
    assert "* inside" in run("path")
    space.record("path", path="of an older version")
    assert space.path.name == paths.EVERYTHING
    assert sum(standing.passed for standing in space.standings().values()) == 3


def test_the_end_of_a_part_and_of_a_path_is_told(space: Workspace):
    run("start", "--path", "story")
    passed(space, "01", "02", "03", "05", "06")
    assert space.finished(catalog.find("06")) == ""
    passed(space, "04", "07")
    said = space.finished(catalog.find("07"))
    assert said.startswith("You have passed all of “I. A GPT, piece by piece”. You have a GPT.")
    assert "`harness train" in said
    passed(space, "08", "14", "15", "29", "32")
    assert "the end of your path, A story of your own" in space.finished(catalog.find("32"))


def test_a_milestone_is_told_where_a_path_leaves_out_a_problem_of_a_part(space: Workspace):
    """04 is not on the story path, so its part is never whole there."""
    said = run("start", "--path", "story")
    assert "Your path: A story of your own, 11 problems, about 10 h. You can write a GPT" in said
    passed(space, "01", "02", "03")
    said = run("next")
    assert "It builds on 03" in said
    assert "Your path leaves out 04 Layer normalization" in said
    assert "06 MiniGPT, 32 TinyStories build on it." in said
    assert "that are left, in order: 05 06 07 08 14 15 29 32." in run("path")
    passed(space, "05", "07")
    assert space.finished(catalog.find("07")) == ""
    passed(space, "06")
    assert space.finished(catalog.find("07")).startswith("You have a GPT. Train it now")
    assert space.finished(catalog.find("01")) == ""
    assert "You have a GPT. Train it now" in run("next")
    names = [problem.name for problem in paths.find("story").problems]
    assert catalog.built(names)[0].startswith("a GPT, the step that trains it")
    assert catalog.built(names[:-1]) == []


def test_the_best_run_of_ones_own_pieces_is_told(space: Workspace):
    run("start", "--path", "story")
    passed(space, "01", "02", "03", "05", "06", "07")
    folder = Path("runs/mine")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"pieces": "attempts"}')
    (folder / "metrics.jsonl").write_text('{"step": 200, "validation_loss": 1.5}\n')
    (folder / "baselines.json").write_text('{"bigram": 2.25}')
    for said in (run(), run("next")):
        assert "Your best run: mine, with a validation loss of 1.50 at step 200; a bigram model has 2.25." in said
        assert "Train it now" not in said


def test_somebody_who_comes_back_is_welcomed(space: Workspace):
    assert "Usage:" in run()
    run("start")
    said = run()
    assert "Your first problem is 01 " in said
    assert "`grade show 01`" in said
    assert "`grade problem 01`" in said
    assert len(said.splitlines()) < 8
    assert "Usage:" in run("--help")
    passed(space, "01", "02", "03")
    said = run()
    assert f"Welcome back. 3 of {len(catalog.names())} problems passed, 20 points." in said
    assert "Next: 04 Layer normalization, by hand (about 30 minutes)" in said
    assert "grade hunt" in said
    assert "Usage:" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[path]]\ntitle = "A"\nproblems = ["p01_a"]\n', "path 1 needs a `name` of its own"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = []\n', "path 1 must list its `problems`"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = ["p02_b"]\n', "path 1 lists 'p02_b'"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = ["p01_a", "p01_a"]\n', "each once"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = ["p01_a"]\nhours = 3\n', "path 1 cannot have 'hours'"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = [{ problem = "p01_a", dome = "x" }]\n', "did you mean 'done'"),
        ('[[path]]\nname = "a"\ntitle = "A"\nproblems = [{ problem = "p01_a", done = 3 }]\n', "must be texts"),
        ('path = 3\n', r"write each path as a table"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_sound_is_named(tmp_path: Path, text: str, says: str):
    folder = tmp_path / "problems" / "p01_a"
    folder.mkdir(parents=True)
    (folder / "problem.py").touch()
    part = '[[part]]\ntitle = "P"\nproblems = ["p01_a"]\n'
    body = f"{text}{part}" if text.startswith("path") else f"{part}{text}"
    (tmp_path / "course.toml").write_text(f'title = "T"\n{body}')
    with pytest.raises(CourseError, match=says):
        read(tmp_path)
