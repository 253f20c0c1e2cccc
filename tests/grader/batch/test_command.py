"""`grade batch` as a teacher runs it."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from grader.course import catalog
from tests.conftest import Grade, boot, wait_for_busy_workers
from tests.grader.batch.conftest import GOOD, NAME, OWN, STUB, WRONG, Submit, rows, stored, table

BOOT = boot()
MISCONCEPTIONS = catalog.misconceptions(catalog.load(NAME))
NO_SHIFT = next(idea.name for idea in MISCONCEPTIONS if WRONG in idea.variants(GOOD).values())

NO_FILE = "no file for it: notes.txt is neither a .py file nor a notebook"

# In a background job of a shell, these tests and all processes that they start would ignore SIGINT.
ENABLE_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


def test_a_class_is_graded_and_graded_again(grade: Grade, school_class: Path, seed: Path, tmp_path: Path):
    out = tmp_path / "results"
    command = ("batch", school_class, "--out", out, "--seed-file", seed, "--timeout", 3)
    run = grade(*command, "--format", "gradescope")
    assert run.code == 0, run.err
    assert "8 learners (folders), 1 problem, 7 files." in run.out
    results = rows(out)
    assert {learner: (row["verdict"], row["score"]) for learner, row in results.items()} == {
        "Ada Lovelace": ("PASS", "6"), "Zoë": ("FAIL", "1"), "'=cmd": ("NOT ATTEMPTED", "0"), "quits": ("ERROR", "0"),
        "copy of Zoë": ("FAIL", "1"), "loops": ("TIMEOUT", "0"), "nothing": ("NOT "
            "ATTEMPTED", "0"), "broken": ("ERROR", "0"),
    }  # fmt: skip
    assert results["Zoë"]["misconception"] == NO_SHIFT
    assert results["nothing"]["message"] == NO_FILE
    assert "binary file" in results["broken"]["message"]
    assert "the process exited" in results["quits"]["message"]
    assert [list(row.values()) for row in table(out / "similar.csv")] == [
        [NAME, "Ada Lovelace", "", "1.000", "the reference"],
        [NAME, "copy of Zoë", "Zoë", "1.000", ""],
    ]
    assert "1 learner handed in the reference word for word: Ada Lovelace (07)." in run.out
    # A report on a file that never ran also has all checks and points, and says why.
    for learner, message in {
        "broken": "binary file",
        "nothing": NO_FILE,
        "Zoë": "a number differs from the reference's",
    }.items():
        tests = json.loads((out / "gradescope" / f"{learner}.json").read_text())["tests"]
        assert sum(test["max_score"] for test in tests) == 6
        assert any(message in test["output"] for test in tests)
    page = (out / "summary.html").read_text()
    for text in ("8 learners, 1 problem", NO_SHIFT, "copy of Zoë"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
    with closing(sqlite3.connect(out / "results.sqlite")) as database:
        (report,) = database.execute("select report from records where learner = 'Zoë'").fetchone()
    assert json.loads(report)["isolation"].startswith("strict: ")
    before = (out / "results.csv").read_text()

    # First nothing has changed, then one file has, and one learner is gone.
    assert "To grade: 0. Unchanged: 6." in grade(*command).out
    assert (out / "results.csv").read_text() == before
    (school_class / "Zoë" / f"{NAME}.py").write_text(GOOD)
    (school_class / "nothing" / "notes.txt").unlink()
    (school_class / "nothing").rmdir()
    assert "To grade: 1. Unchanged: 5." in grade(*command).out
    assert rows(out)["Zoë"]["verdict"] == "PASS"
    assert "nothing" not in rows(out)


@pytest.mark.thorough
def test_a_secret_seed_gives_other_cases_and_the_same_scores_everywhere(
    grade: Grade, submit: Submit, seed: Path, tmp_path: Path
):
    submit("ada", WRONG)
    folder = submit("bob", GOOD)
    for name, options in {"one": ("--seed-file", seed), "two": ("--seed-file", seed, "--jobs", 1), "own": ()}.items():
        run = grade("batch", folder, "--out", tmp_path / name, *options)
        assert run.code == 0, run.err
    one, two, own = (rows(tmp_path / name) for name in ("one", "two", "own"))
    assert one == two
    assert own["ada"]["score"] == one["ada"]["score"]
    # The first line says when the class was graded.
    private = [
        grade("results", tmp_path / name, "--learner", "ada").out.partition("\n")[2] for name in ("one", "two", "own")
    ]
    assert private[0] == private[1] != private[2], "the teacher sees the numbers of the cases"
    assert (tmp_path / "own" / "seed.txt").stat().st_mode & 0o077 == 0


@pytest.mark.thorough
def test_copies_of_known_solutions_are_named(grade: Grade, submit: Submit, tmp_path: Path):
    """Files from the web, and the submissions of earlier years, are compared with those of the class."""
    web, year = tmp_path / "web", tmp_path / "2025"
    (year / "eve").mkdir(parents=True)
    web.mkdir()
    (web / "07.py").write_text(WRONG + OWN)
    (web / f"{NAME} (2).py").write_bytes(b"\0")
    (year / "eve" / f"{NAME}.py").write_text(STUB)
    submit("ada", WRONG + OWN)
    folder = submit("bob", (WRONG + OWN).replace("kept", "mine"))
    command = ("batch", folder, "--out", tmp_path / "results")
    run = grade(*command, "--known", web, "--known", year)
    assert run.code == 0, run.err
    assert f"2 learners handed in {web}/07.py word for word: ada (07), bob (07)." in run.out
    assert [row["known"] for row in table(tmp_path / "results" / "similar.csv")] == [f"{web}/07.py"] * 2
    assert "word for word" in (tmp_path / "results" / "summary.html").read_text()
    again = grade(*command)
    assert f"Note: --known is {web}, {year}, as in the last batch; --without known leaves it out." in again.out
    assert "2 learners handed in" in again.out
    alone = grade(*command, "--without", "known")
    assert "word for word" not in alone.out
    assert [row["other"] for row in table(tmp_path / "results" / "similar.csv")] == ["bob"]
    (web / "07.py").unlink()
    assert f"Note: --known {web} has no file for a problem that is graded now" in grade(*command, "--known", web).out
    assert "There is no folder or archive" in grade(*command, "--known", tmp_path / "nowhere").err


def test_files_with_the_same_code_are_graded_once(grade: Grade, submit: Submit, seed: Path, tmp_path: Path):
    for number in range(3):
        submit(f"right {number}", f"# {number}\n{GOOD}")
        submit(f"wrong {number}", f"# {number}\n{WRONG}")
    folder = submit("other", f"\n{WRONG}  # on another line\n")
    run = grade("batch", folder, "--seed-file", seed, "--out", tmp_path / "results")
    assert run.code == 0, run.err
    assert "To grade: 7, of which 4 repeat the code of another." in run.out
    by_learner = rows(tmp_path / "results")
    assert {name: row["score"] for name, row in by_learner.items()} == {
        name: "6" if "right" in name else "1" for name in by_learner
    }
    assert by_learner["wrong 0"]["message"] == by_learner["wrong 2"]["message"] == by_learner["other"]["message"]
    again = grade("batch", folder, "--seed-file", seed, "--out", tmp_path / "results")
    assert "To grade: 0. Unchanged: 7." in again.out


@pytest.mark.thorough
def test_killed_and_resumed(submit: Submit, seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A batch that was killed at any moment can be resumed. Nothing is left behind, and the scores are the same."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for number in range(9):
        folder = submit(f"right {number}", f"NUMBER = {number}\n{GOOD}")
        submit(f"wrong {number}", f"NUMBER = {number}\n{WRONG}")
    out = tmp_path / "results"
    arguments = (folder, "--out", out, "--seed-file", seed, "--jobs", 2)
    command = [sys.executable, "-c", BOOT, "batch", *map(str, arguments)]
    counts = []
    for _ in range(3):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline, goal = time.monotonic() + 90, (counts[-1] if counts else 0) + 4
        while stored(out) < goal:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive
        counts.append(stored(out))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Unchanged: {counts[-1]}." in done.stdout
    by_learner = rows(out)
    assert len(by_learner) == 18
    assert {row["score"] for name, row in by_learner.items() if "right" in name} == {"6"}
    assert {row["score"] for name, row in by_learner.items() if "wrong" in name} == {"1"}
    assert list(temporary.iterdir()) == []


def test_interrupted_by_the_user(submit: Submit, tmp_path: Path):
    folder = submit("slow", "while True: pass\n")
    process = subprocess.Popen(
        [sys.executable, "-c", ENABLE_SIGINT + BOOT, "batch", str(folder), "--out", "results"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    while "To grade" not in process.stdout.readline():
        pass
    wait_for_busy_workers(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted with 0 of 1 results saved. Rerun the command to resume." in err
    assert "Traceback" not in err


def test_weaker_isolation_is_refused_unless_accepted(grade: Grade, submit: Submit, tmp_path: Path):
    folder = submit("ada")
    run = grade("batch", folder, "--out", tmp_path / "results", GRADE_WITHOUT="landlock")
    assert run.code == 2
    assert "The isolation on this machine is partial: " in run.err
    assert "--accept-isolation=partial" in run.err
    run = grade(
        "batch", folder, "--out", tmp_path / "results", "--accept-isolation", "partial", GRADE_WITHOUT="landlock"
    )
    assert run.code == 0, run.err
    assert rows(tmp_path / "results")["ada"]["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--out", "r"], "There is no folder or archive nowhere."),
        (["class"], "--out"),
        (["class", "--out", "r", "--problems", "99"], "There is no problem '99'."),
        (["class", "--out", "r", "--problems", "08-07"], "is backwards; write 07-08 instead"),
        (["class", "--out", "r", "--seed-file", "nowhere"], "The seed file nowhere cannot be read"),
        (["class", "--out", "r", "--seed-file", "empty"], "is empty"),
        (["class", "--out", "empty"], "is a file; choose a folder for the results"),
        (["class", "--out", "class/results"], "are in one another; choose a folder beside"),
        (["class", "--out", "."], "are in one another; choose a folder beside"),
        (["class", "--out", "other"], "is not a `grade batch` results database"),
    ],
)
def test_usage_errors(grade: Grade, submit: Submit, tmp_path: Path, arguments: list[str], message: str):
    submit("ada")
    (tmp_path / "empty").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.sqlite").write_text("something else entirely, of more than a hundred bytes" * 3)
    run = grade("batch", *arguments)
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err


def test_a_scheduler_that_does_not_answer(grade: Grade, submit: Submit):
    submit("ada")
    arguments = ("class", "--out", "r", "--scheduler", "tcp://127.0.0.1:1")
    run = grade("batch", *arguments, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s")
    assert run.code == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in run.err
    assert "Traceback" not in run.err


def test_two_batches_cannot_write_to_one_folder(grade: Grade, submit: Submit, tmp_path: Path):
    import fcntl

    folder = submit("ada")
    (tmp_path / "results").mkdir()
    with (tmp_path / "results" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = grade("batch", folder, "--out", tmp_path / "results")
    assert run.code == 2
    assert "Another `grade batch` is writing" in run.err
