"""The commands of a learner."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from grader.course import catalog
from tests.conftest import ROOT, Grade, boot, wait_for_busy_workers

SOLUTIONS = ROOT / "solutions"


def test_a_hint_without_a_workspace_creates_none(grade: Grade, tmp_path):
    for _ in range(2):
        shown = grade("hint", "07")
        assert shown.out.startswith("Hint 1 of 4")
        assert "not recorded: there is no workspace. `grade start` creates one." in " ".join(shown.out.split())
    assert not (tmp_path / "attempts").exists()


def test_a_file_that_was_mixed_up_is_told(grade: Grade, tmp_path):
    mine = tmp_path / "p02_causal_attention.py"
    mine.write_text((SOLUTIONS / mine.name).read_text())
    stub = grade("problem", "02")
    assert stub.code == 1
    beside = (
        "There is another p02_causal_attention.py in this folder: `grade problem 02 p02_causal_attention.py` grades it."
    )
    assert beside in " ".join(stub.err.split())
    other = grade("problem", "03", mine.name)
    assert other.code == 1
    named = f"{mine.name} has the name of problem 02: `grade problem 02 {mine.name}`."
    assert named in " ".join(other.err.split())
    right = grade("problem", "02", mine.name)
    assert (right.code, "has the name" in right.err) == (0, False)


def test_a_first_session(grade: Grade, tmp_path):
    """Start, read, grade the stub, take hints, fail, pass, and read the reference."""
    started = grade("start")
    assert started.code == 0
    names = [problem.name for problem in catalog.problems()]
    assert f"new   attempts: {len(names)} files, from {names[0]}.py to {names[-1]}.py" in started.out
    assert started.out.count("\n") < 20
    assert "grade show 01" in started.out
    assert "attempts is up to date." in grade("start").out

    page = grade("show", "02")
    assert "## The problem" in page.out
    assert "## Hints" not in page.out
    assert "4 hints: `grade hint 02`" in page.out

    untouched = grade("problem", "02")
    assert untouched.code == 1
    assert "NOT ATTEMPTED, 0 of 7 points" in untouched.out
    assert "write `causal_attention(q, k, v)` in p02_causal_attention.py" in " ".join(untouched.out.split())

    assert "Hint 1 of 4" in grade("hint", "02").out
    second = grade("hint", "02").out
    assert "Hint 2 of 4" in second
    assert "2 hints left" in second
    again = grade("hint", "02", "--again").out
    assert "Hint 1 of 4" in again
    assert "Hint 2 of 4" in again
    grade("hint", "02")
    assert "0 hints left. `grade solution 02 --give-up`" in grade("hint", "02").out
    all_of_them = grade("hint", "02").out
    assert [f"Hint {number} of 4" in all_of_them for number in (1, 2, 3, 4)] == [True] * 4

    refused = grade("solution", "02")
    assert refused.code == 2
    assert "You have not passed problem 02 yet." in refused.err

    mine = tmp_path / "attempts" / "p02_causal_attention.py"
    mine.write_text((SOLUTIONS / "p02_causal_attention.py").read_text().replace("axis=-1", "axis=0"))
    failed = grade("problem", "02")
    assert failed.code == 1
    assert "softmax over the wrong axis" in failed.out

    mine.write_text((SOLUTIONS / "p02_causal_attention.py").read_text())
    passed = grade("problem", "2", cwd=tmp_path / "attempts")
    assert passed.code == 0, "the workspace is found from a folder in it"
    shown = grade("solution", "02").out
    comment, _, _ = shown.partition('"""Problem 02')
    assert shown.removeprefix(comment) == (SOLUTIONS / "p02_causal_attention.py").read_text()
    assert comment.replace("# ", "").split() == catalog.why(catalog.find("02")).split()
    assert all(line.startswith("# ") and len(line) <= 80 for line in comment.splitlines())
    assert "0 hints left. `grade solution 02` shows" in grade("hint", "02").out
    listed = grade("list").out
    assert "02  Causal attention, one head                7 of  7  passed" in listed
    assert f"7 of {sum(problem.points for problem in catalog.problems())} points" in listed


def test_a_missing_file_is_created_from_the_stub(grade: Grade, tmp_path):
    run = grade("problem", "07", "--json")
    assert run.json["verdict"] == "NOT ATTEMPTED"
    assert "new   attempts/p07_next_token_loss.py" in run.err
    assert (tmp_path / "attempts" / "p07_next_token_loss.py").read_text() == (
        ROOT / "problems" / "p07_next_token_loss" / "stub.py"
    ).read_text()


def test_giving_up_shows_the_answer_and_is_remembered(grade: Grade):
    grade("start")
    assert "def layer_norm" in grade("solution", "04", "--give-up").out
    assert "gave up" in grade("list").out


def test_another_workspace(grade: Grade, tmp_path):
    assert "new   mine: " in grade("start", "mine").out
    assert grade("--workspace", "mine", "problem", "07", "--json").json["verdict"] == "NOT ATTEMPTED"
    assert not (tmp_path / "attempts").exists()


def test_an_earlier_problem_is_found_in_the_workspace(grade: Grade, tmp_path):
    grade("start")
    for name in ("p03_causal_mha", "p05_gpt_block"):
        (tmp_path / "attempts" / f"{name}.py").write_text((SOLUTIONS / f"{name}.py").read_text())
    assert grade("problem", "05", "--json").json["verdict"] == "PASS"
    (tmp_path / "attempts" / "p03_causal_mha.py").write_text(
        (ROOT / "problems" / "p03_causal_mha" / "stub.py").read_text()
    )
    assert grade("problem", "05", "--json").json["verdict"] == "NOT ATTEMPTED"


COMMANDS = (
    "start",
    "problem",
    "list",
    "next",
    "show",
    "hint",
    "solution",
    "reset",
    "certificate",
    "doctor",
    "watch",
    "try",
    "repl",
    "new",
    "verify",
    "batch",
    "pack",
    "export",
)


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"], *([command, "--help"] for command in COMMANDS)])
def test_help_fits_a_terminal(args, grade: Grade):
    run = grade(*args)
    text = run.out + run.err
    assert "Usage: " in text
    assert max(map(len, text.splitlines())) <= 80
    assert run.code == 0


def test_a_mistyped_command_gets_the_nearest(grade: Grade):
    run = grade("problm", "7")
    assert run.code == 2
    assert "Did you mean `grade problem`?" in run.err


def test_a_workspace_that_cannot_be_written(grade: Grade, tmp_path):
    (tmp_path / "attempts").write_text("a file")
    run = grade("problem", "07")
    assert run.code == 2
    assert run.err.startswith("grade: attempts")
    assert (tmp_path / "attempts").read_text() == "a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_loses_nothing(grade: Grade, tmp_path):
    """Progress cannot be saved: one sentence says so, and the old progress is kept."""
    small = tmp_path / "small"
    small.mkdir()
    script = f"""
mount -t tmpfs -o size=256k tmpfs {small}
cd {small}
cp {SOLUTIONS}/p07_next_token_loss.py .
echo '{{"schema": 1, "problems": {{"p07_next_token_loss": {{"score": 2}}}}}}' > .progress.json
cp .progress.json {tmp_path}/before.json
touch .progress.jsonl
head -c 1m /dev/zero > filler 2>/dev/null
grade() {{
    {sys.executable} -c 'import sys; sys.path.insert(0, "{ROOT}"); from grader.cli.learner import main; main()' "$@"
    echo "code $?"
}}
grade problem 04 --json
grade problem 07
cmp .progress.json {tmp_path}/before.json && echo "kept"
ls -A
"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert "p04_layer_norm.py cannot be written: No space left on device" in done.stderr, done
    assert "grade: could not save your progress: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "code 2" in done.stdout, "no file to grade"
    assert "PASS, 6 of 6" in done.stdout
    assert "code 0" in done.stdout, "the verdict stands"
    assert done.stdout.split("kept\n")[1].split() == [
        ".progress.json",
        ".progress.jsonl",
        "filler",
        "p07_next_token_loss.py",
    ]


def test_control_c_ends_all_processes_at_once(tmp_path):
    (tmp_path / "slow.py").write_text("while True: pass\n")
    # In a background job of a shell, this process would ignore SIGINT.
    enable_sigint = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{enable_sigint}; {boot()}", "problem", "07", "slow.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    below = wait_for_busy_workers(process.pid)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < 5
    assert (process.returncode, err) == (130, "Interrupted.\n")
    assert not [process for process in below if process.is_running()]


def test_a_killed_judge_ends_its_worker(tmp_path):
    (tmp_path / "slow.py").write_text("while True: pass\n")
    process = subprocess.Popen(
        [sys.executable, "-c", boot(), "problem", "07", "slow.py"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    below = wait_for_busy_workers(process.pid)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
