"""Every problem is sound, a walk through the course passes, and the references agree with independent oracles."""

import csv
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.problem import Problem
from tests.conftest import ROOT, Grade


def is_thorough(problem: Problem) -> bool:
    """Whether `grade verify` of a problem is left to `pytest -m thorough`: of all but the one that takes least."""
    return problem.number != 15


def in_fours() -> Iterator[Any]:
    """The names of four problems at a time, which share a process.

    The capstone's runs take as long as those of all other problems together. `grade verify 32` does them, and
    test_tinystories tests its grader.
    """
    chosen = sorted((each for each in catalog.problems() if not each.long_runs), key=is_thorough)
    for thorough, group in itertools.groupby(chosen, is_thorough):
        problems = list(group)
        for start in range(0, len(problems), 4):
            four = problems[start : start + 4]
            marks = [pytest.mark.thorough] if thorough else []
            yield pytest.param([each.name for each in four], marks=marks, id=" ".join(each.label for each in four))


@pytest.mark.parametrize("names", [*in_fours()])
def test_sound(names: list[str], grade: Grade):
    """`grade verify` finds no defect in page, stub, reference, misconceptions, correct programs in other styles,
    margins."""
    run = grade("verify", *names, "--json", "--seeds", 0, "--jobs", 1)
    assert [row["problem"] for row in run.json["problems"]] == names
    for row in run.json["problems"]:
        assert row["complaints"] == []
        assert row["rejected"] == row["named"] == row["ideas"] >= 5
        assert (row["score"], row["seeds"]) == (row["points"], 0)
    assert (run.code, run.json["sound"]) == (0, True)


@pytest.mark.versions
@pytest.mark.thorough  # `.ci/versions` does it on other versions
def test_every_reference_passes(grade: Grade, tmp_path: Path):
    """In the versions of JAX and Flax and the mode of NNX that the tests run in. The capstone's takes as long as all
    others."""
    problems = [problem for problem in catalog.problems() if not problem.long_runs]
    (tmp_path / "class" / "ref").mkdir(parents=True)
    for problem in problems:
        shutil.copy(ROOT / "solutions" / f"{problem.name}.py", tmp_path / "class" / "ref")
    run = grade("batch", "class", "--out", "results", "--jobs", 2, timeout=1500)
    assert run.code == 0, run.err
    with (tmp_path / "results" / "results.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["problem"]: row["verdict"] for row in csv.DictReader(file)} == {
            each.name: "PASS" for each in problems
        }


@pytest.mark.thorough
def test_a_walk_through_the_course(grade: Grade, tmp_path: Path):
    """`grade next` suggests each problem in turn."""
    grade("start")
    space = Workspace(tmp_path / "attempts")
    for name in catalog.names():
        problem = catalog.load(name)
        suggestion = grade("next").out
        assert f"Next: problem {problem.label}, {problem.title}" in suggestion
        assert all(catalog.find(str(number)).title in suggestion for number in problem.builds_on)
        if problem.number % 12 == 1:
            shutil.copyfile(ROOT / "solutions" / f"{name}.py", space.file(problem))
            assert grade("problem", problem.label, "--json").json["verdict"] == "PASS"
        else:
            space.remember(problem, verdict="PASS", score=problem.points)
    assert "passed every problem" in grade("next").out


@pytest.mark.fast
@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.label)
def test_no_line_of_a_stub_wraps_in_the_editor(problem: Problem):
    """The studio's editor has 88 columns on a screen of 1440 pixels."""
    assert [line for line in catalog.stub_text(problem).splitlines() if len(line) > 88] == []


def test_problems_build_on_earlier_ones():
    for problem in catalog.problems():
        assert all(number < problem.number for number in problem.builds_on)


# Independent oracles: other libraries that compute what the references compute.

X = np.random.default_rng(0).standard_normal((5, 12)).astype("float32")


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_attention_equals_that_of_jax():
    from p02_causal_attention import causal_attention

    q, k, v = X[:, None, :4], X[:, None, 4:8], X[:, None, 8:]
    close(causal_attention(q[:, 0], k[:, 0], v[:, 0]), jax.nn.dot_product_attention(q, k, v, is_causal=True)[:, 0])


def test_multi_head_attention_equals_that_of_flax():
    from p03_causal_mha import CausalMHA

    reference = CausalMHA(12, 3, rngs=nnx.Rngs(0))
    oracle = nnx.MultiHeadAttention(3, 12, decode=False, rngs=nnx.Rngs(1))
    for a, b in ((oracle.query, reference.q_proj), (oracle.key, reference.k_proj), (oracle.value, reference.v_proj)):
        a.kernel[...] = b.kernel[...].reshape(12, 3, 4)
    oracle.out.kernel[...] = reference.out_proj.kernel[...].reshape(3, 4, 12)
    close(reference(X), oracle(X, mask=nnx.make_causal_mask(jnp.ones(5))))


def test_layer_norm_equals_that_of_flax():
    from p04_layer_norm import layer_norm

    close(layer_norm(X, jnp.ones(12), jnp.zeros(12), 1e-6), nnx.LayerNorm(12, rngs=nnx.Rngs(0))(X))


def test_loss_equals_that_of_optax_with_a_mask():
    from p07_next_token_loss import next_token_loss

    ids = jnp.array([3, 1, 4, 1, 9])
    losses = optax.softmax_cross_entropy_with_integer_labels(X[:-1], ids[1:])
    close(next_token_loss(X, ids, 0), losses.mean())
    close(next_token_loss(X, ids, 9), losses[:3].mean())


def test_the_gradient_of_the_loss_equals_its_finite_difference():
    from p07_next_token_loss import next_token_loss

    ids = jnp.array([3, 1, 4, 1, 9])
    with jax.enable_x64(True):
        x = jnp.asarray(X, jnp.float64)
        gradient = jax.grad(next_token_loss)(x, ids, 9)
        difference = (next_token_loss(x.at[1, 4].add(1e-6), ids, 9) - next_token_loss(x, ids, 9)) / 1e-6
    close(gradient[1, 4], difference)


def test_the_loss_of_a_new_model_is_that_of_a_uniform_guess():
    """Its logits are near 0, so its loss is near ln V."""
    from p06_mini_gpt import mini_gpt_forward
    from p07_next_token_loss import next_token_loss

    ids = jnp.arange(30) % 7
    logits = mini_gpt_forward(0, ids, 50, 32, 4, 64, 2).reshape(30, 50)
    assert abs(next_token_loss(logits, ids, 49) - np.log(50)) < 1
