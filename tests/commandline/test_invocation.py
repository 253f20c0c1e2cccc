"""Every command in a message can be typed as it is shown, however the program was started."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, write_program

pytestmark = pytest.mark.fast

OUTSIDE = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """`grade` as an installed program of an environment, in a folder whose name has a space."""
    program = tmp_path / "my env" / "bin" / "grade"
    write_program(program)
    return program


def shown(command: list[str], cwd: Path, **env: str) -> str:
    """The first command in the output of `COMMAND next`."""
    clean = {name: value for name, value in os.environ.items() if name != "UV_RUN_RECURSION_DEPTH"}
    done = subprocess.run([*command, "next"], cwd=cwd, env={**clean, **env}, capture_output=True, text=True, check=True)
    match = re.search(r"`([^`]+) show \d\d`", done.stdout)
    assert match, done.stdout
    return match[1]


def test_an_environment_that_is_not_activated(installed: Path, tmp_path: Path):
    command = shown([str(installed)], tmp_path, **OUTSIDE)
    assert command == "'my env/bin/grade'"
    typed = subprocess.run(f"{command} next", shell=True, cwd=tmp_path, env={**os.environ, **OUTSIDE}, check=False)
    assert typed.returncode == 0
    assert shown([str(installed)], ROOT / "docs", **OUTSIDE) == f"'{installed}'"


def test_an_activated_environment(installed: Path, tmp_path: Path):
    assert shown([str(installed)], tmp_path, PATH=f"{installed.parent}:/usr/bin") == "grade"


def test_another_grade_comes_first_on_the_path(installed: Path, tmp_path: Path):
    other = tmp_path / "other" / "grade"
    write_program(other)
    assert shown([str(installed)], tmp_path, PATH=f"{other.parent}:{installed.parent}") == "'my env/bin/grade'"


def test_uv_run(installed: Path, tmp_path: Path):
    env = {"PATH": f"{installed.parent}:/usr/bin", "UV_RUN_RECURSION_DEPTH": "1"}
    assert shown([str(installed)], tmp_path, **env) == "uv run grade"


def test_python_m(tmp_path: Path):
    started = [sys.executable, "-m", "grader"]
    assert shown(started, ROOT, PATH=str(Path(sys.executable).parent)) == "python -m grader"
    assert shown(started, ROOT, **OUTSIDE).endswith("-m grader")


def test_errors_and_usage_too(installed: Path, tmp_path: Path):
    done = subprocess.run(
        ["my env/bin/grade", "nxt"], cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True, check=False
    )
    assert "Usage: 'my env/bin/grade' [OPTIONS]" in done.stderr
    assert "Did you mean `'my env/bin/grade' next`?" in done.stderr
