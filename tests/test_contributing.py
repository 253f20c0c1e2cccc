"""A contributor adds a problem by following CONTRIBUTING.md alone, up to the tests that read every problem."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from grader.course import scaffold
from tests.conftest import ROOT, Grade

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
STEPS = TEXT[TEXT.index("## Add a problem") : TEXT.index("## Add a misconception")]
LEFT_OUT = (".git", ".venv", "__pycache__", "node_modules", "docs")  # a problem needs nothing in docs/


def test_the_page_is_short_and_begins_with_what_somebody_wants():
    assert len(TEXT.splitlines()) <= 120
    assert TEXT.startswith("# Contributing\n\n| I want to | First step |\n")


@pytest.mark.thorough
def test_a_problem_from_the_first_command_to_the_last_test(grade: Grade, tmp_path):
    copy = tmp_path / "course"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    commands = [shlex.split(line) for line in re.findall(r"^ +((?:grade|pytest) .+)$", STEPS, re.MULTILINE)]
    assert [command[:2] for command in commands] == [
        ["grade", "new"], ["grade", "verify"], ["grade", "problem"], ["pytest", "-q"],
    ]  # fmt: skip
    create, verify, problem, tests = commands
    created = grade(*create[1:], cwd=copy, root=copy)
    assert created.code == 0, created.out + created.err
    paths = [copy / path for path in re.findall(r"^new +(\S+)$", created.out, re.MULTILINE)]
    assert len(paths) == 8
    assert all("p99_demo" in str(path) for path in paths)
    unfinished = grade(*verify[1:], "--seeds", 0, cwd=copy, root=copy)
    assert (unfinished.code, unfinished.out.count("still to write")) == (
        1, sum(path.read_text().count("TODO:") for path in paths),
    ), unfinished.out  # fmt: skip
    for path in paths:
        path.write_text(scaffold.finished(path.read_text()))
    verified = grade(*verify[1:], cwd=copy, root=copy)
    assert verified.code == 0, verified.out + verified.err
    assert "1 problem, all sound." in verified.out
    assert "Beyond the course\n  99  A demo" in grade("list", cwd=copy, root=copy).out

    (line,) = re.findall(r"^ +problems = \[(.+)\]$", STEPS, re.MULTILINE)
    course = copy / "course.toml"
    course.write_text(course.read_text().replace('"p07_next_token_loss",\n', f'"p07_next_token_loss",\n  {line},\n'))
    listed = grade("list", cwd=copy, root=copy).out
    assert listed.index("  07  ") < listed.index("  99  A demo") < listed.index("II. Training it")
    graded = grade(*problem[1:], cwd=copy, root=copy)
    assert graded.code == 0, graded.out + graded.err
    assert "PASS, 4 of 4 points" in graded.out
    command = [sys.executable, "-m", *tests, "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) >= 15, done.stdout
