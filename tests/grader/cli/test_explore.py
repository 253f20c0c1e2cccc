"""A failing case at hand: whole arrays, a web page, a script, a session."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade, boot

SOLUTIONS = ROOT / "solutions"
NAN = """
import jax, jax.numpy as jnp

def causal_attention(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[1])
    print("scores", scores)
    mask = jnp.tril(jnp.ones(scores.shape))
    return jax.nn.softmax(scores + jnp.log(mask - 1e-3)) @ v
"""


def python(folder: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=folder, input=stdin, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def wrong_attention(tmp_path: Path) -> Path:
    """A solution of problem 02 with its softmax over the wrong axis, in a workspace."""
    path = tmp_path / "p02_causal_attention.py"
    path.write_text((SOLUTIONS / path.name).read_text().replace("axis=-1", "axis=0"))
    return path


@pytest.mark.thorough
def test_nan_and_printed_numbers_are_explained(grade: Grade, tmp_path):
    (tmp_path / "nan.py").write_text(NAN)
    run = grade("problem", "02", "nan.py", "--full", "--html", "out.html")
    assert run.code == 1, run.err
    words = " ".join(run.out.split())
    assert "The first NaN appears in nan.py, line 8:" in words
    assert "It is the result of `log`." in words
    assert "In an eager run of this case, it printed:" in words
    assert "scores [[" in words
    assert "output: float32[4, 3], wrong values are marked with *" in words
    assert "nan*" in words
    page = (tmp_path / "out.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "scores [[" in page
    assert "Problem 02: see it work" in page
    assert "Some weights are not numbers" in page  # what its play shows


def test_secret_cases_are_not_shown(grade: Grade, tmp_path, wrong_attention):
    (tmp_path / "seed.txt").write_text("secret")
    for option in (["--full"], ["--html", "out.html"]):
        run = grade("problem", "02", wrong_attention, "--seed-file", "seed.txt", *option)
        assert run.code == 2
        assert "--seed-file keeps secret" in run.err
    assert not (tmp_path / "out.html").exists()


@pytest.mark.thorough
def test_a_script_runs_the_failing_case(grade: Grade, tmp_path, wrong_attention):
    made = grade("try", "02", wrong_attention)
    assert made.code == 0, made.err
    script = tmp_path / "try_p02.py"
    run = python(tmp_path, script.name)
    assert run.returncode == 0, run.stderr
    assert "12 of 12 values differ" in run.stdout
    assert "-0.1074*" in run.stdout

    debugged = python(tmp_path, "-m", "pdb", "-c", "break "
        f"{wrong_attention.name}:13", "-c", "continue", "-c", "p q.shape",
                      "-c", "quit", script.name)  # fmt: skip
    assert "(4, 3)" in debugged.stdout, debugged.stdout + debugged.stderr

    script.write_text(script.read_text().replace("check.show", "print(42)\ncheck.show"))
    wrong_attention.write_text((SOLUTIONS / wrong_attention.name).read_text())
    again = grade("try", "02", wrong_attention)
    assert "kept  " in again.out
    assert "print(42)" in (tmp_path / "try_p02_kept1.py").read_text()
    assert "no case fails" in again.out
    assert "output: float32[4, 3]" in python(tmp_path, script.name).stdout


@pytest.mark.thorough
def test_a_session_has_eight_devices_and_the_failing_case(grade: Grade, tmp_path):
    for solution in SOLUTIONS.glob("p*.py"):
        shutil.copy(solution, tmp_path)
    path = tmp_path / "p21_sharded_train_step.py"
    path.write_text(path.read_text().replace("return jnp.mean(", "return 1.3 * jnp.mean("))
    typed = "import p21_sharded_train_step\nprint(jax.device_count(), type(case).__name__, len(expected) > 0)\n"
    run = python(tmp_path, "-c", boot(), "repl", "21", path.name, stdin=typed)
    assert run.returncode == 0, run.stderr
    assert "8 dict True" in run.stdout
    # A script calls the check's own probe, on the same devices.
    assert grade("try", "21", path).code == 0
    tried = python(tmp_path, "try_p21.py")
    assert "expected" in tried.stdout, tried.stdout + tried.stderr


@pytest.mark.parametrize("name", ["my file.py", "attempt.ipynb"])
def test_a_file_that_cannot_be_imported(name: str, grade: Grade):
    run = grade("try", "02", name)
    assert run.code == 2
    assert "cannot be imported by a script" in run.err
