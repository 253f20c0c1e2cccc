"""Without /dev/shm and namespaces, as on some hosts of notebooks, one's own code is graded, and what is missing is
said."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, boot


@pytest.mark.thorough
def test_grading_needs_no_shared_memory(tmp_path: Path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "class" / "ada").mkdir(parents=True)
    solution = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
    for path in (tmp_path / "mine.py", tmp_path / "class" / "ada" / "p07_next_token_loss.py"):
        path.write_text(solution)
    (tmp_path / "grade.py").write_text(f"if __name__ == '__main__':\n    {boot()}\n")
    script = f"""
cd {tmp_path}
for name in null zero random urandom; do touch dev/$name && mount --bind /dev/$name dev/$name; done
mount --rbind dev /dev
test -e /dev/shm && echo "it is still there"
export GRADE_WITHOUT=namespaces
{sys.executable} grade.py problem 07 mine.py
{sys.executable} grade.py doctor
{sys.executable} grade.py batch class --out results
echo "code $?"
"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert "still there" not in done.stdout
    assert "PASS, 6 of 6" in done.stdout, done.stderr
    assert "scratch folders are on the disk" in done.stdout
    assert (
        "grade: This command works with several processes, which need shared memory, and /dev/shm is missing"
        in done.stderr
    )
    assert "code 3" in done.stdout
    assert "Traceback" not in done.stderr
