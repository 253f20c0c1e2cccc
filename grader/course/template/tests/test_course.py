"""Every problem of this course is sound: run `pytest`."""

import subprocess
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parent.parent


def test_every_problem_is_sound():
    command = [sys.executable, "-m", "grader", "--course", str(COURSE), "verify", "--seeds", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
