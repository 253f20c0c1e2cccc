"""Scratch folders are removed, whatever a submission left in them and however the judge ended."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade, boot

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A folder for temporary files that only this test uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def test_a_deep_scratch_folder_is_removed(grade: Grade, tmp_path: Path, temporary: Path):
    """It is deeper than the longest path and than Python can recurse."""
    nest = (
        "import os\nfor _ in range(3000):\n    os.mkdir('inner-folder')\n    os.chdir('inner-folder')\nprint('deep')\n"
    )
    (tmp_path / "mine.py").write_text(SOLUTION.read_text() + nest)
    report = grade("problem", "07", "mine.py", "--json", GRADE_WITHOUT="namespaces", TMPDIR=str(temporary)).json
    assert (report["verdict"], report["stdout"]) == ("PASS", "deep\n")
    assert list(temporary.iterdir()) == []


def test_the_next_judge_removes_the_scratch_folders_of_a_killed_one(grade: Grade, tmp_path: Path, temporary: Path):
    (tmp_path / "mine.py").write_text("while True: pass\n")
    judge = subprocess.Popen(
        [sys.executable, "-c", boot(), "problem", "07", "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    deadline = time.monotonic() + 60
    while not list(temporary.glob("grade-*/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    judge.kill()
    judge.wait()
    assert list(temporary.iterdir())
    shutil.copy(SOLUTION, tmp_path / "mine.py")
    assert grade("problem", "07", "mine.py", TMPDIR=str(temporary)).code == 0
    assert list(temporary.iterdir()) == []
