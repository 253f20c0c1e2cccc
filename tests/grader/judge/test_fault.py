"""Errors that no misconception explains: the first faulty submodule, and the earlier problem that fails."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.fault import first_faulty
from grader.judge.options import GradeOptions
from grader.judge.worker_session import Outcome
from grader.report.json_report import Earlier, PublicReport
from grader.wire.compare import Leaf
from tests.conftest import ROOT, Grade, misconception_name

Graded = Callable[[str], PublicReport]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with all solutions."""
    folder = tmp_path / "attempts"
    shutil.copytree(ROOT / "solutions", folder, ignore=shutil.ignore_patterns("*.toml", "__*"))
    return folder


@pytest.fixture
def graded(workspace: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Graded:
    """A function that grades a file of the workspace by its number.

    No misconception is known: none would explain these errors, and to run them all takes most of a grading.
    """
    monkeypatch.setattr(catalog, "misconceptions", lambda problem: [])

    def grade(number: str) -> PublicReport:
        problem = catalog.find(number)
        source = submission.read(problem, workspace / f"{problem.name}.py")
        return PublicReport.of(judge.grade(problem, source, fork_server, GradeOptions(timeout=200)))

    return grade


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "self.attn(self.ln1(x))",
            "self.attn(1.1 * self.ln1(x))",
            "`blocks.0` receives the right input but",
        ),
        pytest.param(
            "nnx.relu(self.ff1(",
            "nnx.relu(0.7 * self.ff1(",
            "`blocks.0.ff2` already receives a wrong input.",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "return x + self.ff2(",
            "return x + 0.9 * self.ff2(",
            "`blocks.0.ff1` and `blocks.0.ff2` are right.",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_the_wiring_of_a_block_in_a_model(old: str, new: str, sentence: str, workspace: Path, graded: Graded):
    edit(workspace / "p05_gpt_block.py", old, new)
    report = graded("06")
    assert report.verdict == "FAIL"
    assert sentence in report.part
    assert report.earlier.problem == "p05_gpt_block"


def test_a_submodule_of_a_submodule(workspace: Path, graded: Graded):
    edit(workspace / "p03_causal_mha.py", "return self.out_proj(", "return 1.01 * self.out_proj(")
    report = graded("05")
    assert report.part.startswith("`attn` receives the right input but returns the wrong output. ")
    assert "Inside it, `attn.q_proj`, " in report.part
    assert report.earlier == Earlier("p03_causal_mha", "FAIL", None)


def test_right_outputs_and_wrong_gradients(workspace: Path, graded: Graded):
    edit(workspace / "p03_causal_mha.py", "self.v_proj(x).reshape", "jax.lax.stop_gradient(self.v_proj(x)).reshape")
    report = graded("05")
    passed = {check.name: check.passed for check in report.checks}
    assert (passed["output"], passed["gradient"]) == (True, False)
    assert report.part.startswith("All outputs are right.")
    assert "`attn" in report.part


@pytest.mark.thorough
def test_an_earlier_misconception_is_named(workspace: Path, grade: Grade):
    edit(workspace / "p11_gradient_clipping.py", "gradients), norm", "gradients), norm * factor")
    run = grade("problem", "12", "--json", "--timeout", 200).json
    assert run["verdict"] == "FAIL"
    assert run["earlier"] == {
        "problem": "p11_gradient_clipping",
        "verdict": "FAIL",
        "misconception": misconception_name("11", "norm * factor"),
    }
    text = grade("problem", "12").out
    assert "Check problem 11 first: this problem builds on it." in text
    assert "Next: fix p11_gradient_clipping.py first" in text


def test_an_earlier_stub_is_reported_as_one(workspace: Path, grade: Grade):
    shutil.copy(ROOT / "problems" / "p03_causal_mha" / "stub.py", workspace / "p03_causal_mha.py")
    run = grade("problem", "05", "--json", "--timeout", 200).json
    assert run["earlier"]["verdict"] == "NOT ATTEMPTED"
    assert "is not implemented yet" in grade("problem", "05").out


def test_earlier_problems_that_are_right_are_not_reported(workspace: Path, graded: Graded):
    edit(workspace / "p05_gpt_block.py", "x = x + self.attn(", "x = 2 * x + self.attn(")
    report = graded("05")
    assert report.earlier is None
    assert report.part.startswith("The model as a whole receives the right input")


def test_a_model_without_submodules_is_not_called_faulty():
    """Its output is wrong: the report has said so."""

    def outcome(out: float) -> Outcome:
        values = {"values.(whole).call0.in0": 1.0, "values.(whole).call0.out": out, "slopes.(whole).call0.in0": out,
                  "slopes.(whole).call0.out": 1.0}  # fmt: skip
        return Outcome([Leaf(path, "float32", np.float32([value])) for path, value in values.items()])

    assert first_faulty(outcome(2.0), outcome(3.0)).text == ""


def test_a_submodule_that_is_never_called(workspace: Path, graded: Graded):
    edit(workspace / "p05_gpt_block.py", "self.ln2(x)", "x * 1.1")
    assert "`ln2` is never called." in graded("05").part


def test_a_submodule_whose_parameters_are_used_directly_counts_as_called(workspace: Path, graded: Graded):
    edit(
        workspace / "p05_gpt_block.py",
        "self.ff2(nnx.relu(",
        "1.1 * (lambda h: h @ self.ff2.kernel + self.ff2.bias)(nnx.relu(",
    )
    assert "never called" not in graded("05").part


@pytest.mark.parametrize(("used", "said"), [([], True), (["norm.scale"], False), (None, False)])
def test_only_an_unused_submodule_is_said_to_be_never_called(used, said):
    def outcome(out: float, calls: int) -> Outcome:
        values = {"values.a.call0.in0": 1.0, "values.a.call0.out": 1.0, "values.(whole).call0.in0": 1.0,
                  "values.(whole).call0.out": out, "calls.norm": calls}  # fmt: skip
        return Outcome([Leaf(path, "float32", np.float32(value)) for path, value in values.items()])

    finding = first_faulty(outcome(2.0, 1), outcome(3.0, 0), used)
    assert ("`norm` is never called." in finding.text) == said


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param(
            "return self.out_proj(",
            "return 2 * self.out_proj(",
            "Every value is 2 times the expected one",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "return self.out_proj(",
            "return -self.out_proj(",
            "Every value has the wrong sign.",
            marks=pytest.mark.thorough,
        ),
        ("return self.out_proj(", "return jnp.roll(self.out_proj(", "Every row is 1 place too late"),
    ],
)
def test_how_the_wrong_output_of_a_submodule_relates_to_the_right_one(
    old, new, sentence, workspace: Path, graded: Graded
):
    file = workspace / "p03_causal_mha.py"
    line = next(line for line in file.read_text().splitlines() if old in line)
    edit(file, line, line.replace(old, new) + (", 1, 0)" if "roll" in new else ""))
    report = graded("05")
    assert sentence in report.part
    assert sentence not in report.checks[1].message
