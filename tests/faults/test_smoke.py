"""The command finds the first two faults."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.faults import plant


@pytest.mark.thorough
def test_the_first_two_are_found_and_nothing_is_recorded() -> None:
    before = plant.FOUND.read_text(encoding="utf-8"), plant.PAGE.read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--smoke"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == [
        fault.name for fault in plant.faults()[:2]
    ]
    assert (plant.FOUND.read_text(encoding="utf-8"), plant.PAGE.read_text(encoding="utf-8")) == before
