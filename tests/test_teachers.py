"""Runs all commands of docs/teachers.md in order."""

import csv
import os
import re
import subprocess
from pathlib import Path

from tests.conftest import ROOT, write_program

TEXT = (ROOT / "docs" / "teachers.md").read_text()


def test_every_command_works(tmp_path: Path):
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    commands = "\n".join(blocks[1:])  # the first block installs the course
    binaries = tmp_path / "bin"
    write_program(binaries / "grade")
    course = tmp_path / "kata"
    course.mkdir()
    for name in ("solutions", "problems"):
        (course / name).symlink_to(ROOT / name)
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", commands], cwd=course, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "results" / "results.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {(row["learner"], row["problem"][:3]): row for row in csv.DictReader(file)}
    assert rows["ada", "p01"]["verdict"] == "PASS"
    assert rows["bob", "p01"]["verdict"] == "NOT ATTEMPTED"
    for name in [*re.findall(r"`([a-z]+\.(?:csv|html|sqlite))`", TEXT), "gradescope/ada.json"]:
        assert (tmp_path / "results" / name).exists(), name
    assert (tmp_path / "autograder.zip").exists()
    assert (tmp_path / "assignment" / ".github" / "workflows" / "grade.yml").exists()
    assert (tmp_path / "classroom" / "autograder.py").exists()
