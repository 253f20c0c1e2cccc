"""Runs all commands of docs/teachers.md and docs/classroom.md in order."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from grader.batch.gradebook import Assignment
from grader.course import catalog
from tests.conftest import ROOT, write_program
from tests.grader.batch import canvas
from tests.grader.batch.conftest import table

TEXT = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("teachers", "classroom"))


@pytest.mark.thorough
def test_every_command_works(tmp_path: Path, lender: str):
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    commands = "\n".join(blocks[1:])  # the first block installs the course
    binaries = tmp_path / "bin"
    write_program(binaries / "grade")
    course = tmp_path / "kata"
    course.mkdir()
    for name in ("solutions", "problems"):
        (course / name).symlink_to(ROOT / name)
    # As where watch mode runs, so that not each command imports JAX.
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": lender}
    with canvas.running() as server:
        for label in ("01", "02", "03"):
            server.add(Assignment.of(catalog.find(label)).title, catalog.find(label).points, ["17", "18", "19"])
        server.token = re.search("CANVAS_TOKEN=(.+)", commands)[1]
        commands = commands.replace("https://canvas.example.edu", server.url)
        done = subprocess.run(
            ["bash", "-ec", commands], cwd=course, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        points = catalog.find("01").points
        assert server.marks == {100: {"17": points, "18": 0, "19": 0}} | {
            n: dict.fromkeys(["17", "18", "19"], 0) for n in (101, 102)
        }
    rows = {(row["learner"], row["problem"][:3]): row for row in table(tmp_path / "results" / "results.csv")}
    assert rows["ada", "p01"]["verdict"] == "PASS"
    assert rows["bob", "p01"]["verdict"] == "NOT ATTEMPTED"
    assert rows["Hopper, Grace (19)", "p01"]["message"] == "nothing was submitted"
    gradebook = table(tmp_path / "results" / "gradebook.csv")
    assert [row[Assignment.of(catalog.find("01")).title] for row in gradebook] == [str(points), str(points), "0", "0"]
    assert [row["because"] for row in table(tmp_path / "results" / "regrades.csv")] == ["the machine was busy"]
    for name in [*re.findall(r"`([a-z]+\.(?:csv|html|sqlite))`", TEXT), "gradescope/ada.json"]:
        assert any((tmp_path / folder / name).exists() for folder in ("results", "results/earlier", "by-group")), name
    assert [row["learner"] for row in table(tmp_path / "by-group" / "results.csv")] == ["ada"]
    assert sorted(path.name for path in (tmp_path / "feedback").iterdir()) == ["ada.html", "bob.html", "index.csv"]
    assert (tmp_path / "autograder.zip").exists()
    assert (tmp_path / "assignment" / ".github" / "workflows" / "grade.yml").exists()
    assert (tmp_path / "classroom" / "autograder.py").exists()
