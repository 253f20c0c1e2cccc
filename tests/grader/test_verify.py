"""`grade verify` notices what is unsound: each part of a good problem is broken in turn."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade

NAME = "p04_layer_norm"
PAGE, STUB, DEFINITION = (f"problems/{NAME}/{file}" for file in ("page.md", "stub.py", "problem.py"))
SOLUTION, IDEAS = f"solutions/{NAME}.py", f"solutions/{NAME}.toml"

ONE_MEAN = """    mean = jnp.mean(x)
    centred = x - mean
    variance = jnp.mean(centred**2)"""
WRONG_AXIS = """    mean = jnp.mean(x, axis=0)
    centred = x - mean
    variance = jnp.mean(centred**2, axis=0)"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the course with one problem in it, and two of its misconceptions."""
    course = tmp_path / "course"
    for package in ("commandline", "grader"):
        shutil.copytree(ROOT / package, course / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "problems" / NAME, course / "problems" / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    (course / "solutions").mkdir()
    shutil.copy(ROOT / SOLUTION, course / SOLUTION)
    ideas = (ROOT / IDEAS).read_text().split("[[misconception]]")
    (course / IDEAS).write_text("[[misconception]]".join(ideas[:3]))
    return course


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (PAGE, "## Pitfalls", "## Traps", "the page has no section 'Pitfalls'"),
        (PAGE, "[[-1.069", "[[-1.070", "an example is not true"),
        (PAGE, "3. `(x - mean)", "`(x - mean)", "fewer than 3 hints"),
        (PAGE, "layer_norm(x, scale, bias, epsilon) -> out", "norm(x)", "does not give `layer_norm`"),
        (STUB, "raise NotImplementedError", "return x", "the stub is FAIL"),
        (STUB, "def layer_norm(", "def norm(", "the stub does not define `layer_norm`"),
        (SOLUTION, "    mean = ", "    1 / 0\n    mean = ", "ZeroDivisionError"),
        (DEFINITION, 'name="rows with a tiny variance"', 'name="output"', "two checks are called 'output'"),
        (
            IDEAS,
            'name = "statistics of the whole array"',
            'name = "statistics over the wrong axis"',
            "two misconceptions are called 'statistics over the wrong axis'",
        ),
        (IDEAS, ONE_MEAN, WRONG_AXIS, "'statistics of the whole array' is named as 'statistics over the wrong axis'"),
        (IDEAS, "find = ", "fnd = ", "cannot be read"),
    ],
)
def test_what_is_unsound_is_said(file, old, new, complaint, copy: Path, grade: Grade):
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    run = grade("verify", "--json", "--seeds", 1, root=copy)
    (row,) = run.json["problems"]
    assert run.code == 1
    assert any(complaint in said for said in row["complaints"]), row["complaints"]


def test_a_misconception_that_the_checks_do_not_see(copy: Path, grade: Grade):
    """Without the rows with a tiny variance, epsilon on the wrong side of the root would pass."""
    with (copy / IDEAS).open("a") as file:
        file.write(
            '\n[[misconception]]\nname = "epsilon a little larger"\nsays = "It is."\n'
            'find = "variance + epsilon"\nreplace = "variance + 1.000001 * epsilon"\n'
        )
    run = grade("verify", "--json", "--seeds", 1, root=copy)
    assert run.code == 1
    assert run.json["problems"][0]["complaints"] == ["'epsilon a little larger' is not rejected"]
