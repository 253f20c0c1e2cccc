"""Runs all commands of docs/courses.md in order."""

import csv
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, write_program

TEXT = (ROOT / "docs" / "courses.md").read_text()


@pytest.mark.thorough
def test_every_command_works(tmp_path: Path, lender: str):
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    binaries = tmp_path / "bin"
    write_program(binaries / "grade")
    kata = tmp_path / "kata"
    kata.mkdir()
    (kata / "docs").symlink_to(ROOT / "docs")
    # As where watch mode runs, so that not each command imports JAX.
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": lender}
    commands = ["bash", "-ec", "\n".join(blocks)]
    done = subprocess.run(commands, cwd=kata, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 problem, all sound." in done.stdout
    assert "2 problems, all sound." in done.stdout
    for path in re.findall(r"^\| `(\S+?)`", TEXT[: TEXT.index("## 2.")], re.MULTILINE):
        assert (tmp_path / "my-course" / path).exists(), path
    with (tmp_path / "marks" / "results.csv").open(encoding="utf-8-sig", newline="") as file:
        verdicts = {row["problem"]: (row["verdict"], row["score"], row["points"]) for row in csv.DictReader(file)}
    assert verdicts["p01_moving_average"] == ("NOT ATTEMPTED", "0", "5")
    assert verdicts["p02_exponential_average"] == ("PASS", "8", "8")
    assert not (tmp_path / "handout" / "solutions").exists()
    assert "own/solutions/p01_moving_average.py" in zipfile.ZipFile(tmp_path / "smoothing.zip").namelist()


def test_the_page_shows_the_example():
    shown = re.search(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert shown
    assert shown[1] == (ROOT / "docs" / "examples" / "smoothing" / "course.toml").read_text()
