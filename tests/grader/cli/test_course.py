"""Courses of a teacher's own, through the commands: made, selected, broken, installed, and out of reach of
submissions."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course.workspace import Workspace
from tests.conftest import ROOT, Grade

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
NAME = "p01_moving_average"
STYLE = EXAMPLE / "tests" / "problems" / "styles" / "p01_row_by_row.py"


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    """A copy of the example course."""
    return copied(tmp_path / "signals")


def copied(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_new_course_is_sound(grade: Grade, tmp_path: Path):
    created = grade("course", "new", "my-course", "--title", "Signals & noise")
    assert created.code == 0, created.err
    assert {path.name for path in (tmp_path / "my-course").iterdir()} == {
        "problems", "solutions", "tests", "course.toml", "pyproject.toml", "__init__.py", ".gitignore",
    }  # fmt: skip
    verified = grade("--course", "my-course", "verify", "--seeds", 2)
    assert verified.code == 0, verified.out + verified.err
    assert "1 problem, all sound." in verified.out
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"),
            "--ignore", "S,F401,N999", "my-course"]  # fmt: skip
    done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

    added = grade("--course", "my-course", "new", "another", "--title", "Another")
    assert "new   problems/p02_another/page.md\n" in added.out
    listed = grade("--course", "my-course", "list").out
    assert "I. First steps\n  01  Double and add one" in listed
    assert "Beyond the course\n  02  Another" in listed


@pytest.mark.parametrize(
    ("name", "message"), [("there", "is not empty; choose a new folder"), ("1st", "begin it with a letter")]
)
def test_a_course_that_cannot_be_made(grade: Grade, tmp_path: Path, name: str, message: str):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    run = grade("course", "new", name)
    assert run.code == 2
    assert message in run.err
    assert run.err.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]


def test_the_workspace_keeps_the_course(grade: Grade, signals: Path, tmp_path: Path):
    started = grade("--course", signals, "start")
    assert started.code == 0, started.err
    assert (tmp_path / "attempts" / f"{NAME}.py").exists()
    assert "Smoothing" not in grade("list").out, "the current folder has no progress"
    inside = grade("list", cwd=tmp_path / "attempts")
    assert "  01  Moving average" in inside.out
    assert "moving_average" in grade("show", "01", cwd=tmp_path / "attempts").out
    assert "Moving average" in grade("next", cwd=tmp_path / "attempts").out
    assert "* gpt-kata" not in grade("course", "list", cwd=tmp_path / "attempts").out
    shipped = grade("--course", "gpt-kata", "list", cwd=tmp_path / "attempts")
    assert "I. A GPT, piece by piece" in shipped.out
    by_variable = grade("list", cwd=tmp_path / "attempts", GRADE_COURSE=str(ROOT))
    assert "I. A GPT, piece by piece" in by_variable.out


def test_a_workspace_of_somebody_else_runs_no_code(grade: Grade, signals: Path, tmp_path: Path):
    """A submission may be a workspace: its file must not choose the code that the teacher's command runs."""
    (signals / "problems" / NAME / "problem.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / ".progress.json").write_text(json.dumps({"course": str(signals), "schema": 1}))
    run = grade("list")
    assert run.code == 2
    assert "which you have not used before" in run.err
    assert not (tmp_path / "ran").exists()


def test_a_course_that_is_not_there(grade: Grade, tmp_path: Path):
    for run in (grade("--course", "nowhere", "list"), grade("list", GRADE_COURSE="nowhere")):
        assert run.code == 2
        assert run.err.startswith("grade: There is no course 'nowhere': it is neither a folder with a course.toml")
    assert "Did you mean 'gpt-kata'?" in grade("--course", "gpt_kata", "list").err


@pytest.mark.parametrize(
    ("file", "text", "command", "complaint"),
    [
        (f"problems/{NAME}/problem.py", "PROBLEM = (", "problem 01", f"{NAME}/problem.py cannot be imported: "
            "SyntaxError"),
        (f"problems/{NAME}/problem.py", "raise SystemExit(0)", "problem 01", "problem.py cannot be imported: "
            "SystemExit"),
        (f"problems/{NAME}/problem.py", "x = 1", "problem 01", f"problems/{NAME}/problem.py must define PROBLEM"),
        (f"problems/{NAME}/problem.py", None, "problem 01", f"problems/{NAME}/problem.py cannot be imported: "
            "FileNotFoundError"),
        (f"problems/{NAME}/page.md", None, "show 01", f"problems/{NAME}/page.md cannot be read: No such file"),
        (f"problems/{NAME}/stub.py", None, "problem 01", f"problems/{NAME}/stub.py cannot be read: No such file"),
        (f"problems/{NAME}/probes.py", "def f(:", "problem 01", f"problems/{NAME}/probes.py cannot be imported: "
            "SyntaxError"),
        (f"solutions/{NAME}.py", None, "problem 01", f"its reference SIGNALS/solutions/{NAME}.py is missing"),
        (f"solutions/{NAME}.py", "+moving_average(1, 2)", f"problem 01 {STYLE}", "of problem 01 fails: TypeError"),
        (f"solutions/{NAME}.toml", "[[misconception", "problem 01", f"solutions/{NAME}.toml cannot be read"),
        ("course.toml", "title", "list", "course.toml is not valid TOML"),
    ],
)  # fmt: skip
def test_a_broken_course_is_named(
    grade: Grade, signals: Path, file: str, text: str | None, command: str, complaint: str
):
    if text is None:
        (signals / file).unlink()
    elif text.startswith("+"):
        with (signals / file).open("a") as source:
            source.write(text[1:])
    else:
        (signals / file).write_text(text)
    run = grade("--course", signals, *command.split())
    assert complaint.replace("SIGNALS", str(signals)) in run.err
    assert run.code == 2
    assert "internal error" not in run.err
    assert "Traceback" not in run.err


def test_a_definition_that_cannot_be_read_is_a_row_and_no_end(grade: Grade, signals: Path, tmp_path: Path):
    (signals / "problems" / NAME / "problem.py").write_text("PROBLEM = (")
    other = signals / "solutions" / "p02_exponential_average.py"
    complaint = f"problems/{NAME}/problem.py cannot be imported: SyntaxError"
    for command in (("list",), ("start",)):
        run = grade("--course", signals, *command)
        assert (run.code, run.err) == (0, "")
        assert complaint in " ".join(run.out.split())
    assert grade("--course", signals, "problem", "02", other).code == 0
    verified = grade("--course", signals, "verify", "--seeds", 1)
    assert verified.code == 1
    assert f"FAIL {NAME}" in verified.out
    assert complaint in verified.out
    assert "2 problems, 1 not sound." in verified.out
    packed = grade("--course", signals, "pack", "bundle")
    assert packed.code == 2, "nothing is left out of a bundle without a word"
    assert complaint in packed.err


def test_cases_that_cannot_be_drawn_are_the_authors(grade: Grade, signals: Path):
    path = signals / "problems" / NAME / "problem.py"
    path.write_text(path.read_text().replace('"window": sizes["W"]', '"window": sizes["X"]'))
    run = grade("--course", signals, "problem", "01")
    assert run.code == 2
    assert f"{path} cannot draw its 'cases': KeyError: 'X'" in run.err


def test_a_private_course_shows_no_solution(grade: Grade, signals: Path):
    run = grade("--course", signals, "solution", "01", "--give-up")
    assert run.code == 2
    assert "The course 'Smoothing signals' is private" in run.err
    (signals / "course.toml").write_text(
        (signals / "course.toml").read_text().replace("private = true", "private = false")
    )
    assert (
        grade("--course", signals, "solution", "01", "--give-up").out == (signals / f"solutions/{NAME}.py").read_text()
    )


def test_an_installed_course_is_selected_by_name(grade: Grade, tmp_path: Path):
    site = tmp_path / "site"
    copied(site / "smoothing")
    metadata = site / "smoothing-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: smoothing\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[gpt_kata.courses]\nsmoothing = smoothing\nlost = no_such_package\n")
    listed = grade("course", "list", PYTHONPATH=str(site))
    assert listed.code == 0, listed.err
    assert "* gpt-kata" in listed.out
    assert "  smoothing             Smoothing signals, 2 problems, private" in listed.out
    assert "lost" not in listed.out
    assert "  01  Moving average" in grade("--course", "smoothing", "list", PYTHONPATH=str(site)).out
    grade("--course", "smoothing", "start", PYTHONPATH=str(site))
    assert Workspace(tmp_path / "attempts").course == "smoothing"
    assert "Moving average" in grade("list", cwd=tmp_path / "attempts", PYTHONPATH=str(site)).out
    assert "There is no course 'smoothing'" in grade("list", cwd=tmp_path / "attempts").err


@pytest.mark.thorough
def test_a_class_a_bundle_and_a_plugin(grade: Grade, signals: Path, tmp_path: Path):
    """With a problem of ours beside the course's own."""
    (signals / "course.toml").write_text(
        'title = "Mixed"\n[[part]]\ntitle = "I"\n'
        'problems = [{ include = "p04_layer_norm", points = 15 }, "p01_moving_average"]\n'
    )
    verified = grade("--course", signals, "verify", "04", "--seeds", 1)
    assert verified.code == 0, verified.out
    ada = tmp_path / "class" / "ada"
    ada.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / "p04_layer_norm.py", ada / "p04_layer_norm.py")
    shutil.copy(signals / "solutions" / f"{NAME}.py", ada / "01.py")
    batch = grade("--course", signals, "batch", "class", "--out", "results", "--feedback", "feedback")
    assert batch.code == 0, batch.err
    assert "Mixed: results of a class" in (tmp_path / "results" / "summary.html").read_text()
    feedback = (tmp_path / "feedback" / "ada.html").read_text()
    assert "<h1>Mixed</h1>" in feedback
    assert "15 of 15" in feedback
    rows = (tmp_path / "results" / "results.csv").read_text()
    assert "p04_layer_norm" in rows
    assert NAME in rows
    assert "2 PASS." in batch.out

    packed = grade("--course", signals, "pack", "bundle", "--problems", "01,04")
    assert packed.code == 0, packed.err
    bundle = tmp_path / "bundle"
    assert not [path for path in bundle.rglob("*.py") if "inside.sum(axis" in path.read_text(encoding="utf-8")]
    graded = grade("problem", "01", ada / "01.py", root=bundle)
    assert graded.code == 0, graded.out + graded.err
    assert "Mixed" in grade("course", "list", root=bundle).out

    grade("--course", signals, "start")
    shutil.copy(signals / "solutions" / f"{NAME}.py", tmp_path / "attempts" / f"{NAME}.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--workspace",
        "attempts",
        "-k",
        "moving",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout


def test_the_book_of_a_course(grade: Grade, signals: Path, tmp_path: Path):
    refused = grade("--course", signals, "book", "--no-browser", "--out", "signals")
    assert (refused.code, "is not a book" in refused.err) == (2, True)
    (tmp_path / "book").mkdir()  # a folder that is there and empty is as good as a new one
    run = grade("--course", signals, "book", "--no-browser", "--out", "book")  # a relative path
    assert run.code == 0, run.err
    home = (tmp_path / "book" / "index.html").read_text(encoding="utf-8")
    assert "<title>Smoothing signals</title>" in home
    assert "02 · Exponential average" in home
    assert "For teachers" not in home
    assert "<svg" in (tmp_path / "book" / f"{NAME}.html").read_text(encoding="utf-8")


THIEF = """
import os

def attempt(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__

print("SEEN", [attempt(COURSE + name) for name in ("", "/problems", "/solutions", "/tests")])

def moving_average(x, window):
    return x
"""


@pytest.fixture
def in_prefix() -> Iterator[Path]:
    """A folder below Python's own, which workers can otherwise read."""
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        Path(folder).chmod(0o755)  # a worker may be another user
        yield Path(folder)


@pytest.mark.parametrize("without", ["", "namespaces", "landlock"])
def test_no_submission_reads_the_course(grade: Grade, in_prefix: Path, tmp_path: Path, without: str):
    course = copied(in_prefix / "signals")
    (tmp_path / "mine.py").write_text(f"COURSE = {str(course)!r}\n{THIEF}")
    run = grade("--course", course, "problem", "01", "mine.py", "--json", GRADE_WITHOUT=without)
    seen = run.json["stdout"]
    assert "SEEN" in seen, run.json
    assert NAME not in seen
    assert "reads the solutions" not in str(run.json["isolation"])


def test_no_submission_reads_a_course_in_a_home(grade: Grade, tmp_path: Path):
    course = copied(tmp_path / "home" / "signals")
    (tmp_path / "mine.py").write_text(f"COURSE = {str(course)!r}\n{THIEF}")
    run = grade("--course", course, "problem", "01", "mine.py", "--json", HOME=str(tmp_path / "home"))
    assert "SEEN" in run.json["stdout"], run.json
    assert NAME not in run.json["stdout"]
