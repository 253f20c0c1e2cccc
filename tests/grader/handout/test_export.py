"""The autograders of course systems."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from commandline.errors import UsageError
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.handout import export
from grader.judge import bundled_outputs
from tests.conftest import NO_SHIFT, ROOT, Grade, made_once, misconception_name, write_program
from tests.grader.report.test_formats import RUNNER, check_classroom50

NAME = "p07_next_token_loss"
GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()


@pytest.fixture
def gradescope(grade: Grade, tmp_path: Path) -> Path:
    """Gradescope's folder, with an autograder for problem 07 whose `grade` is that of its own copy of the course."""
    assert grade("export", "gradescope", "autograder.zip", "--problems", "07").code == 0
    top = tmp_path / "autograder"
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(top / "source")
    (top / "submission").mkdir()
    (top / "results").mkdir()
    write_program(top / "venv" / "bin" / "grade", top / "source" / "course")
    return top


def run_autograder(top: Path) -> subprocess.CompletedProcess[str]:
    script = (top / "source" / "run_autograder").read_text().replace("/autograder/", f"{top}/")
    return subprocess.run(["bash", "-c", script], env=os.environ, capture_output=True, text=True, check=False)


def gradescope_results(top: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((top / "results" / "results.json").read_text())
    return results


@pytest.mark.thorough
def test_gradescope_autograder_runs(gradescope: Path):
    assert (gradescope / "source" / "course" / "solutions" / f"{NAME}.py").exists()
    (gradescope / "submission" / f"{NAME}.py").write_text(GOOD)
    done = run_autograder(gradescope)
    assert done.returncode == 0, done.stderr
    assert gradescope_results(gradescope)["score"] == 6


def test_an_empty_submission_to_gradescope_gets_no_points_and_the_reason(gradescope: Path):
    done = run_autograder(gradescope)
    assert done.returncode == 0, done.stderr
    result = gradescope_results(gradescope)
    assert (result["score"], sum(test["max_score"] for test in result["tests"])) == (0, 6)
    assert {test["output"] for test in result["tests"]} == {"nothing was submitted"}


def test_a_broken_course_on_gradescope_is_no_score(gradescope: Path):
    """Any exit code but 0 ends the script before it writes results: 2 here, and 3 after an internal error."""
    (gradescope / "submission" / f"{NAME}.py").write_text(GOOD)
    (gradescope / "source" / "course" / "solutions" / f"{NAME}.toml").write_text("broken")
    done = run_autograder(gradescope)
    assert done.returncode == 2
    assert f"{NAME}.toml cannot be read" in done.stderr
    assert list((gradescope / "results").iterdir()) == []


def test_the_scripts_of_gradescope_can_be_run(gradescope: Path):
    with zipfile.ZipFile(gradescope.parent / "autograder.zip") as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755


def test_what_gradescope_builds_has_the_packages_that_its_project_file_names(gradescope: Path):
    course = gradescope / "source" / "course"
    project = tomllib.loads((course / "pyproject.toml").read_text())
    for name in project["tool"]["uv"]["build-backend"]["module-name"]:
        assert (course / name / "__init__.py").exists()


def test_gradescope_gets_the_solutions_of_its_problems_only(gradescope: Path):
    """And their misconceptions, each of which shows a line of a solution. Learners' code runs beside these files."""
    solutions = gradescope / "source" / "course" / "solutions"
    frames = {path.stem for path in catalog.frames(catalog.load(NAME))}
    assert {path.stem for path in solutions.rglob("p[0-9][0-9]_*")} == {NAME, *frames}
    assert (solutions / f"{NAME}.toml").is_file()


def test_gradescope_tells_learners_as_much_as_it_is_asked_to(grade: Grade, tmp_path: Path):
    told = ("--reveal", "verdict", "--reveal-after-due", "advice")
    assert grade("export", "gradescope", "told.zip", "--problems", "07", *told).code == 0
    with zipfile.ZipFile(tmp_path / "told.zip") as archive:
        script = archive.read("run_autograder").decode()
    assert script.count(" ".join(told)) == 1
    run = grade("export", "gradescope", "more.zip", "--problems", "07", "--reveal-after-due", "idea")
    assert run.code == 2
    assert "--reveal-after-due idea tells less than --reveal advice" in run.err


def test_gradescope_is_set_up_without_touching_the_system(gradescope: Path, tmp_path: Path):
    """Where PEP 668 forbids pip: the script's pip is that of a virtual environment. Stubs stand for what needs a
    network."""
    stubs, system = tmp_path / "stubs", tmp_path / "system"
    stubs.mkdir()
    system.mkdir()
    log = tmp_path / "log"
    # This python3 makes environments whose pip and uv are stubs. Its own pip fails, as on Debian and Ubuntu.
    programs = {
        stubs / "apt-get": f'echo "apt-get $*" >> {log}',
        stubs / "python3": f"""
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"; cp {system}/* "$3/bin/"
else
    echo "error: externally-managed-environment" >&2; exit 1
fi""",
        system / "python": f'echo "venv python $*" >> {log}',
        system / "uv": f'echo "uv $*" >> {log}',
    }
    for path, text in programs.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    script = (gradescope / "source" / "setup.sh").read_text().replace("/autograder/", f"{gradescope}/")
    env = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == [
        "apt-get update",
        "apt-get install -y --no-install-recommends python3-venv",
        "venv python -m pip install uv",
        f"uv venv --python >=3.11 {gradescope}/venv",
        f"uv pip install --python {gradescope}/venv/bin/python -e .",
    ]


@pytest.mark.thorough
def test_the_workflow_of_github(grade: Grade, tmp_path: Path):
    """Each problem has a step, which fails if the problem does not pass, and writes its report to the summary."""
    run = grade("export", "github", "assignment", "--problems", "07")
    assert run.code == 0, run.err
    top = tmp_path / "assignment"
    workflow = yaml.safe_load((top / ".github" / "workflows" / "grade.yml").read_text())
    *_, install, step = workflow["jobs"]["grade"]["steps"]
    assert install["id"] in step["if"]
    assert step["shell"] == "bash", "its options stop at an error inside a pipe"
    binaries, summary = tmp_path / "bin", tmp_path / "summary"
    write_program(binaries / "grade", top)
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}

    def run_step() -> int:
        return subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=top, env=env, check=False).returncode

    assert run_step() == 1
    (top / "attempts" / f"{NAME}.py").write_text(GOOD)
    assert run_step() == 0
    text = summary.read_text()
    assert "    Problem 07: NOT ATTEMPTED, 0 of 6 points." in text
    assert "    Problem 07: PASS, 6 of 6 points." in text


@pytest.fixture(scope="module")
def classroom50(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an autograder for problems 07 and 15."""

    def make(folder: Path) -> None:
        assert list(export.classroom50(folder, catalog.select("07,15")))[-1] == str(folder / "autograder.py")

    return made_once(tmp_path_factory, "classroom50", make)


def run_in_classroom50(folder: Path, checkout: Path) -> None:
    """Runs an autograder in a checkout, with this Python in the place of the one that it installs."""
    python = checkout.parent / "python"
    write_program(python.with_name("grade"), folder / "course")
    python.write_text(f'#!/bin/sh\nshift 2\nexec {python.with_name("grade")} "$@"\n')  # without `-m grader`
    python.chmod(0o755)
    program = f"""
import runpy, sys
from pathlib import Path
sys.path.insert(0, {str(folder)!r})
import autograder
autograder.install = lambda environment: Path({str(python)!r})
autograder.main()
"""
    env = {**os.environ, **RUNNER}
    done = subprocess.run([sys.executable, "-c", program], cwd=checkout, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_classroom50_grades_a_checkout(classroom50: Path, tmp_path: Path):
    checkout = tmp_path / "checkout"
    (checkout / "attempts").mkdir(parents=True)
    (checkout / "attempts" / f"{NAME}.py").write_text(GOOD.replace("token_ids[1:]", "token_ids[:-1]"))
    (checkout / "attempts" / "p15_tokenize_and_pack.py").symlink_to("/etc/passwd")
    (checkout / "grader").mkdir()
    (checkout / "grader" / "__init__.py").write_text("raise SystemExit('the grader of the checkout')")
    before = sorted(checkout.rglob("*"))
    run_in_classroom50(classroom50, checkout)
    result = json.loads((checkout / "result.json").read_text())
    check_classroom50(result)
    problems = catalog.select("07,15")
    assert (result["score"], result["max-score"]) == (1, sum(problem.points for problem in problems))
    assert len(result["tests"]) == sum(len(problem.checks) for problem in problems)
    body = (checkout / "release-body.md").read_text()
    assert f"### 1 of {result['max-score']} points" in body
    assert f"Likely cause: {misconception_name('07', NO_SHIFT)}" in body
    written = [checkout / "release-body.md", checkout / "result.json"]
    assert sorted(checkout.rglob("*")) == sorted([*before, *written])


def test_what_classroom50_cannot_grade_is_an_error(classroom50: Path, tmp_path: Path):
    folder, checkout = tmp_path / "broken", tmp_path / "checkout"
    shutil.copytree(classroom50, folder)
    (folder / "course" / "problems" / NAME / "outputs.zip").write_bytes(b"corrupt")
    checkout.mkdir()
    (checkout / f"{NAME}.py").write_text(GOOD)
    with pytest.raises(AssertionError, match="problem 07 could not be graded"):
        run_in_classroom50(folder, checkout)
    assert not (checkout / "result.json").exists()


def test_classroom50_gets_nothing_from_the_solutions(classroom50: Path):
    assert (classroom50 / "course" / "problems" / NAME).is_dir()
    assert not (classroom50 / "course" / "solutions").exists()


def test_a_folder_too_large_for_classroom50_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(export, "CLASSROOM50_MOST_BYTES", 1 << 10)
    monkeypatch.setattr(bundled_outputs, "record", lambda *arguments: (0, 0))
    with pytest.raises(UsageError, match="Export fewer problems"):
        list(export.classroom50(tmp_path / "autograder", [catalog.find("07")]))
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_kept(grade: Grade, tmp_path: Path):
    (tmp_path / "there.zip").write_text("mine")
    assert grade("export", "gradescope", "there.zip", "--problems", "07").code == 2
    assert (tmp_path / "there.zip").read_text() == "mine"
    run = grade("export", "gradescope", "new.zip", "--problems", "07", "--seed-file", "nowhere")
    assert run.code == 2
    assert not (tmp_path / "new.zip").exists()


def test_exported_from_an_installed_course(site: Path, grade: Grade, tmp_path: Path):
    """Where the course is installed without its repository, the autograder gets a project file that it can be installed
    from."""
    run = grade("export", "gradescope", "autograder.zip", "--problems", "07", root=site)
    assert run.code == 0, run.err
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        names = archive.namelist()
        project = tomllib.loads(archive.read("course/pyproject.toml").decode())
    assert {"course/LICENSE", "course/solutions/p07_next_token_loss.py", "course/problems/__init__.py"} <= set(names)
    solutions = [name for name in names if name.startswith("course/solutions/p")]
    assert solutions == ["course/solutions/p07_next_token_loss.py", "course/solutions/p07_next_token_loss.toml"]
    packages = project["tool"]["uv"]["build-backend"]["module-name"]
    assert packages == ["commandline", "grader", "harness", "problems", "solutions", "tasks"]
    assert not [name for name in names if "__pycache__" in name]


def test_an_interrupted_assignment_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workspace, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(export.github(tmp_path / "assignment", [catalog.find("07")]))
    assert list(tmp_path.iterdir()) == []
