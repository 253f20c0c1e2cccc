"""The autograders of course systems."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from grader.course import catalog
from grader.handout import export
from tests.conftest import ROOT, Grade, write_program

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()


def test_gradescope_autograder_runs(grade: Grade, tmp_path: Path):
    """Its script runs, with its folders moved to a temporary one and `grade` replaced by this course's."""
    assert grade("export", "gradescope", "autograder.zip", "--problems", "07").code == 0
    top = tmp_path / "autograder"
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(top / "source")
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert (top / "source" / "course" / "solutions" / "p07_next_token_loss.py").exists()
    (top / "submission").mkdir()
    (top / "results").mkdir()
    (top / "submission" / "p07_next_token_loss.py").write_text(GOOD)
    binaries = top / "venv" / "bin"
    binaries.mkdir(parents=True)
    course = top / "source" / "course"
    write_program(binaries / "grade", course)
    (binaries / "python").symlink_to(sys.executable)
    script = (top / "source" / "run_autograder").read_text().replace("/autograder/", f"{top}/")
    done = subprocess.run(["bash", "-c", script], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((top / "results" / "results.json").read_text())
    assert result["score"] == 6
    shutil.rmtree(course / "grader" / "batch")  # to cause an internal error
    subprocess.run(["bash", "-c", script], env=os.environ, capture_output=True, check=False)
    assert "The autograder failed" in json.loads((top / "results" / "results.json").read_text())["output"]


def test_github_classroom_repository(grade: Grade, tmp_path: Path):
    run = grade("export", "github", "assignment", "--problems", "07")
    assert run.code == 0, run.err
    top = tmp_path / "assignment"
    workflow = yaml.safe_load((top / ".github" / "workflows" / "classroom.yml").read_text())
    steps = workflow["jobs"]["grade"]["steps"]
    (step,) = [step for step in steps if step.get("id")]
    reporter = steps[-1]
    assert reporter["with"]["runners"] == step["id"] == "problem-07"
    assert reporter["env"] == {"PROBLEM-07_RESULTS": "${{ steps.problem-07.outputs.result }}"}
    assert (top / "attempts" / "p07_next_token_loss.py").exists()
    (top / "attempts" / "p07_next_token_loss.py").write_text(GOOD)
    binaries = tmp_path / "bin"
    binaries.mkdir()
    write_program(binaries / "grade", top)
    output = tmp_path / "output"
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=top, env=env, check=True)
    assert output.read_text().startswith("result=ey")
    assert output.read_text().count("\n") == 1


def test_existing_files_are_kept(grade: Grade, tmp_path: Path):
    (tmp_path / "there.zip").write_text("mine")
    assert grade("export", "gradescope", "there.zip", "--problems", "07").code == 2
    assert (tmp_path / "there.zip").read_text() == "mine"
    run = grade("export", "gradescope", "new.zip", "--problems", "07", "--seed-file", "nowhere")
    assert run.code == 2
    assert not (tmp_path / "new.zip").exists()


def test_exported_from_an_installed_course(site: Path, grade: Grade, tmp_path: Path):
    """Where the course is installed without its repository, the autograder gets a project file that it can be installed from."""
    run = grade("export", "gradescope", "autograder.zip", "--problems", "07", root=site)
    assert run.code == 0, run.err
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        names = archive.namelist()
        project = tomllib.loads(archive.read("course/pyproject.toml").decode())
    assert {"course/LICENSE", "course/solutions/p07_next_token_loss.py", "course/problems/__init__.py"} <= set(names)
    packages = project["tool"]["uv"]["build-backend"]["module-name"]
    assert packages == ["commandline", "grader", "harness", "problems", "solutions"]
    assert not [name for name in names if "__pycache__" in name]


def test_an_interrupted_assignment_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "_workflow", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(export.github(tmp_path / "assignment", [catalog.find("07")]))
    assert list(tmp_path.iterdir()) == []
