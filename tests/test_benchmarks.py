"""The benchmarks work, and their table is complete. Figures are measured by hand: no test depends on a time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.worker.xla_flags import QUICK_TO_COMPILE
from tests.conftest import ROOT

FOLDER = ROOT / "benchmarks"
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("learner", "timing", "tutorial"))


def test_the_table_lists_every_benchmark() -> None:
    listed = re.findall(r"^\| `(\w+)\.py", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(set(listed)) == BENCHMARKS


@pytest.mark.thorough
@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_works(name: str, tmp_path: Path) -> None:
    flags = f"{QUICK_TO_COMPILE} {os.environ.get('XLA_FLAGS', '')}"
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--smoke"],
        cwd=tmp_path, env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
