"""How a training of the studio ended, in words."""

import subprocess
import sys

import pytest

from studio.training import Training

pytestmark = pytest.mark.fast


def ended(program: str, *, kill: bool = False) -> Training:
    """A training whose process runs this program, and has ended."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    if kill:
        process.kill()
    process.communicate()
    return Training("one", None, process)


def test_a_training_that_was_killed_has_failed_unless_it_was_to_stop():
    killed = ended("input()", kill=True)
    assert "killed by signal 9" in killed.error
    killed.is_stopping = True
    assert killed.error == ""


def test_the_last_line_says_why_a_training_failed_also_while_it_stops():
    failed = ended("exit(3)")
    assert failed.error == "the process ended with exit code 3."
    failed.lines.extend(["step 1", "harness: The disk is full.", ""])
    failed.is_stopping = True
    assert failed.error == "The disk is full."
    assert ended("exit(0)").error == ""
