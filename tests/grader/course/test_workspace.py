"""A learner's folder: nothing in it is ever lost, and damaged progress never stops a command."""

import json
import os
import stat
import sys
from importlib.metadata import version

import pytest

from commandline.errors import UsageError
from grader.course import assistants, catalog, log, page, vscode, workspace
from grader.course.log import FILE, OLD, Progress
from grader.course.workspace import Workspace
from grader.problem import Problem
from tests.conftest import Grade

PROBLEM = catalog.find("07")


@pytest.fixture
def space(tmp_path) -> Workspace:
    """A workspace that has just been started."""
    space = Workspace(tmp_path / "attempts")
    space.start()
    return space


def page_of(space: Workspace):
    return space.folder / "pages" / f"{PROBLEM.name}.md"


def publish(monkeypatch, text: str) -> None:
    """Makes `text` the page of every problem, as an update of the course would."""
    monkeypatch.setattr(page, "without_hints", lambda problem: text)


def test_start_creates_stubs_and_pages_and_returns_the_new_paths(tmp_path):
    space = Workspace(tmp_path / "attempts")
    created, edited = space.start()
    assert (len(created), edited) == (2 * len(catalog.names()) + len(assistants.files()), [])
    assert all(path.is_file() for path in created)
    assert space.file(PROBLEM).read_text() == catalog.stub_text(PROBLEM)
    assert "## The problem" in page_of(space).read_text()
    assert "## Hints" not in page_of(space).read_text()
    written = page_of(space).stat().st_mtime_ns
    assert space.start() == ([], [])
    assert page_of(space).stat().st_mtime_ns == written


def test_assistants_are_asked_to_tutor_unless_the_folder_has_instructions(tmp_path):
    (tmp_path / "CLAUDE.md").write_text("mine")
    Workspace(tmp_path).start()
    instructions = (tmp_path / "AGENTS.md").read_text()
    assert "tutor" in instructions
    assert "`PYTHON -m grader show NN`" in instructions
    for rule in ("Never name the line", "one question at a time", "six sentences at most", "explain one decision back"):
        assert rule.lower() in " ".join(instructions.lower().split())
    for command in ("hunt", "review", "predict"):
        assert command in instructions
    settings, _ = vscode.contents()["settings.json"]
    (key,) = [key for key, value in settings.items() if value == sys.executable]
    assert f"`{key}` in `{vscode.FOLDER}/settings.json`" in " ".join(instructions.split())
    assert "AGENTS.md" in (tmp_path / ".github" / "copilot-instructions.md").read_text()
    assert (tmp_path / "CLAUDE.md").read_text() == "mine"
    (own := tmp_path / "own").mkdir()
    (own / "AGENTS.md").write_text("mine")
    Workspace(own).start()
    assert (own / "AGENTS.md").read_text() == "mine"
    assert not (own / "CLAUDE.md").exists()


def test_a_solution_is_never_overwritten(tmp_path):
    space = Workspace(tmp_path)
    space.file(PROBLEM).write_text("mine")
    created, _ = space.start()
    assert space.file(PROBLEM) not in created
    assert space.file(PROBLEM).read_text() == "mine"


def test_a_page_that_the_course_has_changed_is_updated(space, monkeypatch):
    for text in ("second edition\n", "third edition\n"):
        publish(monkeypatch, text)
        assert space.start() == ([], [])
        assert page_of(space).read_text() == text


def test_a_page_with_notes_is_kept(space, monkeypatch):
    notes = page_of(space).read_text() + "\nNote to self: shift the targets.\n"
    page_of(space).write_text(notes)
    assert space.start() == ([], []), "there is no newer page to report"
    assert page_of(space).read_text() == notes
    publish(monkeypatch, "second edition\n")
    for _ in range(2):
        assert space.start() == ([], [page_of(space)])
        assert page_of(space).read_text() == notes
    page_of(space).unlink()
    assert space.start() == ([page_of(space)], [])
    assert page_of(space).read_text() == "second edition\n"


@pytest.mark.parametrize("progress", [None, "", "{", '{"pages": 3}', '{"pages": {"p07_next_token_loss": 3}}'])
def test_a_page_of_unknown_origin_is_kept(space, progress):
    """The hash of what the course wrote is lost, so the page may hold the learner's notes."""
    (space.folder / FILE).unlink()
    if progress is not None:
        (space.folder / OLD).write_text(progress)
    page_of(space).write_text("mine")
    assert space.start() == ([], [page_of(space)])
    assert page_of(space).read_text() == "mine"


def test_start_keeps_progress_and_progress_keeps_pages(space, monkeypatch):
    space.remember(PROBLEM, hints=1)
    publish(monkeypatch, "second edition\n")
    space.start()
    assert space.progress() == {PROBLEM.name: Progress(hints=1)}
    assert page_of(space).read_text() == "second edition\n"


def test_the_command_keeps_a_page_with_notes(grade: Grade, tmp_path):
    grade("start")
    (tmp_path / "attempts" / FILE).unlink()
    notes = tmp_path / "attempts" / "pages" / f"{PROBLEM.name}.md"
    notes.write_text("mine")
    run = grade("start")
    assert run.code == 0
    assert f"kept  attempts/pages/{PROBLEM.name}.md" in run.out
    assert notes.read_text() == "mine"


def test_progress_keeps_the_best_score(tmp_path):
    space = Workspace(tmp_path)
    space.remember(PROBLEM, verdict="PASS", score=6)
    space.remember(PROBLEM, verdict="FAIL", score=2)
    space.remember(PROBLEM, hints=2)
    row = space.progress()[PROBLEM.name]
    assert (row.verdict, row.score, row.last_verdict, row.last_score, row.hints) == ("PASS", 6, "FAIL", 2, 2)
    assert [path.name for path in tmp_path.iterdir()] == [FILE], "no temporary file is left"


def grade_as(space: Workspace, problem: Problem, verdict: str, score: int, text: str) -> None:
    """Writes a solution and remembers its verdict."""
    space.file(problem).write_text(text)
    space.remember(problem, verdict=verdict, score=score)


def test_a_piece_that_broke_or_changed_since_it_passed(space):
    assert space.standing(PROBLEM) == ("", 0, False)
    grade_as(space, PROBLEM, "FAIL", 2, "first = 1\n")
    assert space.standing(PROBLEM) == ("fail", 2, False)
    grade_as(space, PROBLEM, "PASS", 6, "good = 1\n")
    assert space.standing(PROBLEM) == ("passed", 6, True)
    space.file(PROBLEM).write_text("good = 2\n")
    assert space.standing(PROBLEM) == ("changed since it passed", 6, True)
    grade_as(space, PROBLEM, "ERROR", 1, "good = 2\n")
    assert space.standing(PROBLEM) == ("broken", 1, False)
    assert space.progress()[PROBLEM.name].score == 6
    space.file(PROBLEM).write_text("good = 1\n")
    assert space.standing(PROBLEM) == ("passed", 6, True), "the text that passed is back"


def test_a_piece_that_another_one_imports(space):
    heads, block = catalog.find("03"), catalog.find("05")
    space.file(heads).write_text("x = 1\n")
    grade_as(space, block, "PASS", block.points, f"import {heads.name}\n")
    space.file(heads).write_text("x = 2\n")
    assert space.standing(block).state == "changed since it passed"
    assert not space.why_changed(block), "03 was never graded"


def test_a_changed_import_is_named(space):
    heads, block, gpt = (catalog.find(label) for label in ("03", "05", "06"))
    grade_as(space, heads, "PASS", heads.points, "x = 1\n")
    grade_as(space, block, "PASS", block.points, f"import {heads.name}\n")
    grade_as(space, gpt, "PASS", gpt.points, f"import {block.name}\n")
    assert not space.why_changed(block)
    space.file(heads).write_text("x = 2\n")
    assert space.why_changed(block) == space.why_changed(gpt) == "it imports 03, which changed"
    assert not space.why_changed(heads)
    space.file(heads).write_text("x = 1\n")
    space.file(block).write_text(f"import {heads.name}  # of mine\n")
    assert not space.why_changed(block)


def test_a_passing_text_keeps_its_date(space, monkeypatch):
    grade_as(space, PROBLEM, "PASS", 6, "good = 1\n")
    first = space.progress()[PROBLEM.name]
    assert first.passed_at.endswith("+00:00")
    assert f"jax {version('jax')}" in first.versions
    monkeypatch.setattr(log, "versions", lambda: "other")
    grade_as(space, PROBLEM, "PASS", 6, "good = 1\n")
    assert space.progress()[PROBLEM.name] == first
    grade_as(space, PROBLEM, "PASS", 6, "good = 2\n")
    assert space.progress()[PROBLEM.name].versions == "other"


def test_progress_of_an_older_version(space):
    (space.folder / OLD).write_text(row(verdict="PASS", score=6, hints=1, given_up=False))
    assert space.standing(PROBLEM) == ("passed", 6, True)
    grade_as(space, PROBLEM, "FAIL", 3, "bad = 1\n")
    assert space.standing(PROBLEM) == ("broken", 3, False)


def test_reset_keeps_the_old_files(space):
    assert space.reset(PROBLEM) is None, "it is the stub"
    for number, text in enumerate(("one", "two"), 1):
        grade_as(space, PROBLEM, "PASS", 6, text)
        assert space.reset(PROBLEM) == space.folder / f"{PROBLEM.name}.{number}.py"
        assert space.file(PROBLEM).read_text() == catalog.stub_text(PROBLEM)
        assert space.standing(PROBLEM) == ("reset", 0, False)
    assert [(space.folder / f"{PROBLEM.name}.{number}.py").read_text() for number in (1, 2)] == ["one", "two"]
    space.file(PROBLEM).unlink()
    space.file(PROBLEM).symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"next_token_loss\.py is a symbolic link"):
        space.reset(PROBLEM)


def row(**fields: object) -> str:
    return json.dumps({"schema": 1, "problems": {PROBLEM.name: fields}})


DAMAGED = {
    "empty": "",
    "cut off": row(verdict="FAIL", score=2)[:-9],
    "a list": "[]",
    "nested too deeply": "[" * 100_000,
    "nested too deeply to be written again": '{"x": ' + "[" * 2000 + "]" * 2000 + "}",
    "not UTF-8": b"\xff\xfe",
    "problems is a number": '{"problems": 3}',
    "problems is a list": '{"problems": [1]}',
    "a row is a number": '{"problems": {"p07_next_token_loss": 3}}',
    "a score of text": row(score="6"),
    "a score of null": row(score=None),
    "a score of true": row(score=True),
    "a fractional score": row(score=1.5),
    "an infinite score": row().replace("{}", '{"score": 1e999}'),
    "a negative score": row(score=-1),
    "a list of scores": row(score=[1]),
    "a verdict that is a number": row(verdict=3),
    "a verdict that cannot be printed": row(verdict="\ud800"),
    "hints of text": row(hints="2"),
    "an unknown field": row(color="red"),
}


def damage(folder, name: str) -> None:
    text = DAMAGED[name]
    (folder / OLD).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_progress_counts_as_missing(tmp_path, name):
    damage(tmp_path, name)
    space = Workspace(tmp_path)
    assert space.progress().get(PROBLEM.name, Progress()) == Progress()
    space.remember(PROBLEM, hints=1)
    assert Workspace(tmp_path).progress()[PROBLEM.name].hints >= 1


def test_what_is_not_damaged_is_kept(tmp_path):
    (tmp_path / OLD).write_text(row(verdict="FAIL", score="x", hints=2))
    assert Workspace(tmp_path).progress() == {PROBLEM.name: Progress("FAIL", 0, 2)}


@pytest.mark.parametrize(
    "name", ["nested too deeply", "not UTF-8", "a score of text", "a score of null", "a verdict that cannot be printed"]
)
def test_damaged_progress_does_not_stop_a_command(grade: Grade, tmp_path, name):
    (tmp_path / "attempts").mkdir()
    damage(tmp_path / "attempts", name)
    for command in (["list"], ["next"], ["hint", "07", "--again"]):
        run = grade(*command)
        assert (run.code, run.err) == (0, ""), command
    assert " 0 of  6" in grade("list").out
    run = grade("problem", "07")
    assert run.code == 1, "the stub does not pass"
    assert "internal error" not in run.err
    assert Workspace(tmp_path / "attempts").progress()[PROBLEM.name].verdict == "NOT ATTEMPTED"


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "attempts").write_text("")
    with pytest.raises(UsageError, match="attempts is a file; the workspace must be a folder"):
        Workspace(tmp_path / "attempts").start()


def test_the_workspace_is_found_from_inside(tmp_path, monkeypatch):
    Workspace(tmp_path).remember(PROBLEM, hints=1)
    (tmp_path / "pages").mkdir()
    monkeypatch.chdir(tmp_path / "pages")
    assert workspace.find(None).folder == tmp_path
    assert workspace.find("elsewhere").folder.name == "elsewhere"


def test_progress_is_readable_by_others(tmp_path):
    Workspace(tmp_path).remember(PROBLEM, hints=1)
    assert stat.S_IMODE(os.stat(tmp_path / FILE).st_mode) == 0o644


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_pipes_and_links_are_not_read(space, make):
    pages = [space.folder / "pages" / f"{problem.name}.md" for problem in catalog.problems()[:2]]
    for path in (*pages, space.folder / FILE):
        path.unlink()
        make(path)
    assert space.progress() == {}
    with pytest.raises(UsageError, match=r"\.progress\.jsonl is a "):
        space.start()
    (space.folder / FILE).unlink()
    assert space.start() == ([], pages)


def test_the_next_problem_is_the_first_one_after_another_that_is_not_passed(tmp_path):
    space = workspace.Workspace(tmp_path)
    problems = catalog.problems()
    assert space.next_problem() == problems[0]
    assert space.next_problem(problems[-1]) == problems[0]
    space.remember(problems[0], verdict="PASS", score=problems[0].points)
    space.remember(problems[2], verdict="PASS", score=problems[2].points)
    assert space.next_problem() == space.next_problem(problems[0]) == space.next_problem(problems[-1]) == problems[1]
    assert space.next_problem(problems[1]) == problems[3]
    for problem in problems[:-1]:
        space.remember(problem, verdict="PASS", score=problem.points)
    assert space.next_problem() == problems[-1]
    assert space.next_problem(problems[-1]) is None
    assert space.standings() == {problem.name: space.standing(problem) for problem in problems}
