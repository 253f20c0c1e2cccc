"""`pytest --workspace`, run as an editor or a course system does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import catalog
from tests.conftest import NO_SHIFT, ROOT, misconception_name

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
STUB = (ROOT / "problems" / "p01_token_embedding" / "stub.py").read_text()


@pytest.fixture
def run(tmp_path: Path):
    """A function that runs pytest in a folder with a workspace, and then some more lines of Python."""

    def run(*arguments: str, then: str = "") -> subprocess.CompletedProcess[str]:
        boot = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pytest; "
            f"code = pytest.main(sys.argv[1:], plugins=[])\n{then}\nsys.exit(code)"
        )
        command = [sys.executable, "-c", boot, "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / "p01_token_embedding.py").write_text(STUB)
    (tmp_path / "attempts" / "p07_next_token_loss.py").write_text(GOOD.replace("token_ids[1:]", "token_ids[:-1]"))
    (tmp_path / "attempts" / "notes.py").write_text("raise SystemExit")
    return run


def test_one_test_for_each_check(run):
    completed = run("--workspace", "attempts", "-v")
    assert completed.returncode == 1
    assert "attempts/p07_next_token_loss.py::shifted by one FAILED" in completed.stdout
    assert "attempts/p07_next_token_loss.py::nothing to predict gives 0 PASSED" in completed.stdout
    assert f"5 failed, 1 passed, {len(catalog.find('01').checks)} skipped" in completed.stdout
    assert f"Likely cause: {misconception_name('07', NO_SHIFT)}." in completed.stdout
    assert "0 of 1 point. " in completed.stdout
    assert "Traceback" not in completed.stdout
    assert "judge.py" not in completed.stdout, "the grader's own frames are not shown"


def test_tests_are_collected_without_jax(run):
    then = "print(sorted({'jax', 'jaxlib', 'flax'} & sys.modules.keys()), 'grader.pytest_plugin' in sys.modules)"
    completed = run("--workspace", "attempts", "--collect-only", "-q", then=then)
    assert "attempts/p07_next_token_loss.py::shifted by one" in completed.stdout
    assert completed.stdout.splitlines()[-1] == "[] True"


def test_a_single_file(run, tmp_path: Path):
    (tmp_path / "attempts" / "p07_next_token_loss.py").write_text(GOOD)
    completed = run("--workspace", "attempts", "attempts/p07_next_token_loss.py", "-q")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "6 passed" in completed.stdout


def test_a_missing_workspace(run):
    completed = run("--workspace", "nowhere")
    assert completed.returncode == 4
    assert "There is no workspace nowhere; `grade start` creates one." in completed.stderr


def test_without_the_option_nothing_is_graded(run):
    assert "no tests ran" in run().stdout


def test_a_link_is_not_followed(run, tmp_path: Path):
    path = tmp_path / "attempts" / "p07_next_token_loss.py"
    path.unlink()
    path.symlink_to(ROOT / "solutions" / "p07_next_token_loss.py")
    completed = run("--workspace", "attempts", "attempts/p07_next_token_loss.py", "-q")
    assert "6 failed" in completed.stdout
    assert f"{path} is a symbolic link; replace it with a copy of the file." in completed.stdout
    assert "Traceback" not in completed.stdout


def test_an_import_that_is_a_pipe(run, tmp_path: Path):
    (tmp_path / "attempts" / "p07_next_token_loss.py").write_text("import p03_causal_mha\n" + GOOD)
    os.mkfifo(tmp_path / "attempts" / "p03_causal_mha.py")
    completed = run("--workspace", "attempts", "attempts/p07_next_token_loss.py", "-q")
    assert "6 failed" in completed.stdout
    assert "it imports a file that cannot be used: p03_causal_mha.py is a pipe" in completed.stdout


@pytest.mark.parametrize("name", ["p07_next_token_loss.py", "notes.py"])
def test_no_file_runs_in_the_process_of_pytest(run, tmp_path: Path, name: str):
    """Not even one that is named as an argument."""
    text = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    (tmp_path / "attempts" / name).write_text(text)
    run("--workspace", "attempts", f"attempts/{name}", "-q")
    assert not (tmp_path / "ran").exists()
