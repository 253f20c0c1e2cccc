"""A stranger adds problem 99 by following CONTRIBUTING.md alone."""

import re
import shlex
import shutil

import pytest

from tests.conftest import ROOT, Grade

FILE = re.compile(r"^`([\w/.]+)`\n\n(`{3,})\w+\n(.*?)^\2$", re.MULTILINE | re.DOTALL)


@pytest.mark.thorough
def test_problem_99(grade: Grade, tmp_path):
    copy = tmp_path / "course"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = {path: content for path, _, content in FILE.findall(text)}
    assert sorted(files) == [
        "problems/p99_demo/page.md",
        "problems/p99_demo/play.py",
        "problems/p99_demo/problem.py",
        "problems/p99_demo/stub.py",
        "solutions/p99_demo.py",
        "solutions/p99_demo.toml",
        "tests/problems/styles/p99_other_order.py",
        "tests/problems/styles/p99_row_by_row.py",
    ]
    commands = [shlex.split(command) for command in re.findall(r"^grade (.+)$", text, re.MULTILINE)]
    assert [command[0] for command in commands] == ["new", "verify", "problem"]
    scaffolded = grade(*commands[0], cwd=copy, root=copy)
    assert scaffolded.code == 0, scaffolded.out + scaffolded.err
    assert [path for path in files if not (copy / path).is_file()] == []
    for path, content in files.items():
        (copy / path).write_text(content)
    verified, graded = (grade(*command, cwd=copy, root=copy) for command in commands[1:])
    assert verified.code == 0, verified.out + verified.err
    assert "1 problem, all sound." in verified.out
    assert graded.code == 0, graded.out + graded.err
    assert "PASS, 4 of 4 points" in graded.out
    listed = grade("list", cwd=copy, root=copy).out
    assert "Beyond the course\n  99  Double and add one" in listed
    assert grade("problem", "99", "--json", cwd=copy, root=copy).json["verdict"] == "NOT ATTEMPTED"
