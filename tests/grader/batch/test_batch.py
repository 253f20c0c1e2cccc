"""`grade batch`, as a teacher runs it."""

import csv
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

from tests.conftest import ROOT, Grade, boot
from tests.grader.batch.conftest import GOOD, NAME, STUB, WRONG, HandIn

BOOT = boot()


# Whoever runs these tests in the background ignores SIGINT, and so would all that they start.
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
OWN = """

def summary(kept, width=3):
    total = [kept[place : place + width] for place in range(0, len(kept), width) if kept[place] is not None]
    while total and not total[-1]:
        total.pop()
    return {"first": total[0], "last": total[-1], "count": len(total)} if total else {}
"""


def rows(results: Path) -> dict[str, dict[str, str]]:
    with (results / "results.csv").open(encoding="utf-8", newline="") as file:
        return {row["learner"]: row for row in csv.DictReader(file)}


@pytest.fixture
def klass(hand_in: HandIn) -> Path:
    hand_in("Ada Lovelace")
    hand_in("Zoë", WRONG + OWN)
    hand_in("=cmd", STUB)
    hand_in("quits", "import os\nos._exit(0)\n")
    hand_in("copy of Zoë", "# all mine\n" + (WRONG + OWN).replace("losses", "my_losses").replace("kept", "mine"))
    hand_in("loops", "while True: pass\n")
    hand_in("nothing", "", "notes.txt")
    return hand_in("broken", b"\0")


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("correct horse battery staple\n")
    return path


def test_a_class_is_graded_and_graded_again(grade: Grade, klass: Path, seed: Path, tmp_path: Path):
    out = tmp_path / "results"
    command = ("batch", klass, "--out", out, "--seed-file", seed, "--timeout", 3)
    run = grade(*command, "--format", "gradescope")
    assert run.code == 0, run.err
    assert "8 learners (folders), 1 problems, 7 files." in run.out
    found = rows(out)
    assert {learner: (row["verdict"], row["score"]) for learner, row in found.items()} == {
        "Ada Lovelace": ("PASS", "6"), "Zoë": ("FAIL", "1"), "'=cmd": ("NOT ATTEMPTED", "0"), "quits": ("ERROR", "0"),
        "copy of Zoë": ("FAIL", "1"), "loops": ("TIMEOUT", "0"), "nothing": ("NOT ATTEMPTED", "0"), "broken": ("ERROR", "0"),
    }  # fmt: skip
    assert found["Zoë"]["misconception"] == "targets not shifted"
    assert found["nothing"]["message"] == "nothing was handed in"
    assert "binary file" in found["broken"]["message"]
    assert "ended by itself" in found["quits"]["message"]
    assert (out / "similar.csv").read_text().splitlines()[1:] == [f"{NAME},Zoë,copy of Zoë,1.000"]
    # Also those that never ran have all checks and points, and are told why.
    for learner, says in {
        "broken": "binary file",
        "nothing": "nothing was handed in",
        "Zoë": "a number differs",
    }.items():
        tests = json.loads((out / "gradescope" / f"{learner}.json").read_text())["tests"]
        assert sum(test["max_score"] for test in tests) == 6
        assert any(says in test["output"] for test in tests)
    page = (out / "summary.html").read_text()
    for text in ("8 learners, 1 problems", "targets not shifted", "copy of Zoë"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
    with closing(sqlite3.connect(out / "results.sqlite")) as database:
        (report,) = database.execute("select report from records where learner = 'Zoë'").fetchone()
    assert json.loads(report)["isolation"].startswith("strict: ")
    before = (out / "results.csv").read_text()

    # Nothing has changed; then one file has, and one learner is gone.
    assert "To grade: 0. Unchanged: 6." in grade(*command).out
    assert (out / "results.csv").read_text() == before
    (klass / "Zoë" / f"{NAME}.py").write_text(GOOD)
    (klass / "nothing" / "notes.txt").unlink()
    (klass / "nothing").rmdir()
    assert "To grade: 1. Unchanged: 5." in grade(*command).out
    assert rows(out)["Zoë"]["verdict"] == "PASS"
    assert "nothing" not in rows(out)


def test_a_secret_seed_gives_other_cases_and_the_same_marks_anywhere(
    grade: Grade, hand_in: HandIn, seed: Path, tmp_path: Path
):
    hand_in("ada", WRONG)
    folder = hand_in("bob", GOOD)
    for name, options in {"one": ("--seed-file", seed), "two": ("--seed-file", seed, "--jobs", 1), "own": ()}.items():
        run = grade("batch", folder, "--out", tmp_path / name, *options)
        assert run.code == 0, run.err
    one, two, own = (rows(tmp_path / name) for name in ("one", "two", "own"))
    assert one == two
    assert own["ada"]["score"] == one["ada"]["score"]
    assert own["ada"]["message"] != one["ada"]["message"], "the numbers come from other cases"
    assert (tmp_path / "own" / "seed.txt").stat().st_mode & 0o077 == 0


def test_killed_and_resumed(hand_in: HandIn, seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed without warning at any moment, the same command goes on; nothing is left, and the marks are the same."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for number in range(9):
        folder = hand_in(f"right {number}", f"# {number}\n{GOOD}")
        hand_in(f"wrong {number}", f"# {number}\n{WRONG}")
    out = tmp_path / "results"
    command = [
        sys.executable,
        "-c",
        BOOT,
        "batch",
        str(folder),
        "--out",
        str(out),
        "--seed-file",
        str(seed),
        "--jobs",
        "2",
    ]
    kept = []
    for _ in range(3):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline, goal = time.monotonic() + 90, (kept[-1] if kept else 0) + 4
        while _count(out) < goal:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        begun = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(begun, timeout=20)
        assert not alive
        kept.append(_count(out))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Unchanged: {kept[-1]}." in done.stdout
    found = rows(out)
    assert len(found) == 18
    assert {row["score"] for name, row in found.items() if "right" in name} == {"6"}
    assert {row["score"] for name, row in found.items() if "wrong" in name} == {"1"}
    assert list(temporary.iterdir()) == []


def _count(out: Path) -> int:
    if not (out / "results.sqlite").exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{out / 'results.sqlite'}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from records").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize("signal_", [signal.SIGINT])
def test_stopped_by_a_person(hand_in: HandIn, tmp_path: Path, signal_: int):
    folder = hand_in("slow", "import time\ntime.sleep(20)\n" + GOOD)
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS + BOOT, "batch", str(folder), "--out", "results"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    while "To grade" not in process.stdout.readline():
        pass
    time.sleep(3)
    os.killpg(process.pid, signal_)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "Stopped; 0 of 1 records are there. The same command goes on." in err
    assert "Traceback" not in err


def test_less_isolation_is_refused_unless_accepted(grade: Grade, hand_in: HandIn, tmp_path: Path):
    folder = hand_in("ada")
    run = grade("batch", folder, "--out", tmp_path / "results", GRADE_WITHOUT="landlock")
    assert run.code == 2
    assert "The isolation here is partial: " in run.err
    assert "--accept-isolation=partial" in run.err
    run = grade(
        "batch", folder, "--out", tmp_path / "results", "--accept-isolation", "partial", GRADE_WITHOUT="landlock"
    )
    assert run.code == 0, run.err
    assert rows(tmp_path / "results")["ada"]["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere", "--out", "r"], "There is no folder or archive nowhere."),
        (["class"], "--out"),
        (["class", "--out", "r", "--problems", "99"], "There is no problem '99'."),
        (["class", "--out", "r", "--problems", "08-07"], "ends before it begins"),
        (["class", "--out", "r", "--seed-file", "nowhere"], "The seed file nowhere cannot be read"),
        (["class", "--out", "r", "--seed-file", "empty"], "is empty"),
        (["class", "--out", "empty"], "is a file; the results need a folder"),
        (["class", "--out", "other"], "no results file of ours"),
        (
            ["class", "--out", "r", "--scheduler", "tcp://127.0.0.1:1"],
            "There is no Dask scheduler at tcp://127.0.0.1:1",
        ),
    ],
)
def test_what_is_asked_wrongly_is_said(grade: Grade, hand_in: HandIn, tmp_path: Path, arguments: list[str], says: str):
    hand_in("ada")
    (tmp_path / "empty").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.sqlite").write_text("something else entirely, of more than a hundred bytes" * 3)
    run = grade("batch", *arguments)
    assert run.code == 2
    assert says in run.err
    assert "Traceback" not in run.err


def test_two_batches_do_not_write_to_one_folder(grade: Grade, hand_in: HandIn, tmp_path: Path):
    import fcntl

    folder = hand_in("ada")
    (tmp_path / "results").mkdir()
    with (tmp_path / "results" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = grade("batch", folder, "--out", tmp_path / "results")
    assert run.code == 2
    assert "Another `grade batch` is writing" in run.err


def test_a_cluster_gives_the_same_table_though_a_worker_is_killed(
    grade: Grade, klass: Path, seed: Path, tmp_path: Path
):
    distributed = pytest.importorskip("distributed")
    for number in range(8):
        (klass / f"more {number}").mkdir()
        (klass / f"more {number}" / f"{NAME}.py").write_text(f"# {number}\n{GOOD}")
    command = ("batch", klass, "--seed-file", seed, "--timeout", 3)
    assert grade(*command, "--out", tmp_path / "here").code == 0
    boot = "import sys; sys.path.insert(0, {!r}); from distributed.cli.{} import main; main()"
    log = (tmp_path / "cluster.log").open("w")

    def start(what: str, *arguments: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-W", "ignore", "-c", boot.format(str(ROOT), what), *arguments]
        return subprocess.Popen(program, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)

    scheduler = start(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "s.json"
    )
    file = tmp_path / "s.json"
    while not file.exists():
        time.sleep(0.1)
    address = json.loads(file.read_text())["address"]
    arguments = (address, "--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    workers = [start("dask_worker", *arguments) for _ in range(2)]
    try:
        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=60)
        batch = subprocess.Popen(
            [sys.executable, "-c", BOOT, *map(str, command), "--out", "there", "--scheduler", address], cwd=tmp_path
        )
        while _count(tmp_path / "there") < 6:
            assert batch.poll() is None
            time.sleep(0.05)
        workers[0].kill()
        assert batch.wait(timeout=120) == 0
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
        log.close()
    assert (tmp_path / "there" / "results.csv").read_text() == (tmp_path / "here" / "results.csv").read_text()
