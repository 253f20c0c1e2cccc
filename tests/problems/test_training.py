"""What is said about wrong programs of the problems that train a model, where another sentence would be false."""

from typing import Any

import pytest

from tests.conftest import ROOT, Grade, misconception_name


def graded(grade: Grade, folder: Any, number: str, builds_on: str, source: str) -> Any:
    """The report on a program. The reference that it builds on is in the same folder."""
    (folder / f"{builds_on}.py").write_text((ROOT / "solutions" / f"{builds_on}.py").read_text())
    (folder / "mine.py").write_text(source)
    return grade("problem", number, "mine.py", "--json").json


def test_a_step_that_reads_what_it_donated(grade: Grade, tmp_path):
    """JAX raises an error at the first step, at the same line."""
    source = """
import jax, optax
import jax.numpy as jnp
from flax import nnx
from p07_next_token_loss import next_token_loss


def make_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adam(learning_rate), wrt=nnx.Param)


@nnx.jit(donate_argnums=(0, 1))
def step(model, optimizer, ids, pad_id):
    loss = lambda model: jax.vmap(next_token_loss, (0, 0, None))(jax.vmap(model)(ids), ids, pad_id).mean()
    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def train_step(model, optimizer, token_ids, pad_id):
    before = nnx.pure(nnx.state(model, nnx.Param))
    loss = step(model, optimizer, token_ids, pad_id)
    moved = optax.global_norm(jax.tree.map(jnp.subtract, nnx.pure(nnx.state(model, nnx.Param)), before))
    return jnp.where(moved >= 0, loss, jnp.nan)
"""
    report = graded(grade, tmp_path, "08", "p07_next_token_loss", source)
    assert (report["verdict"], report["score"]) == ("FAIL", 0)
    message = report["checks"][0]["message"]
    assert message.startswith("donated buffers are used again")
    assert message.endswith("(mine.py, line 23)")
    assert report["misconception"]["name"] == misconception_name("08", "donating_step(model")


@pytest.mark.thorough
def test_gradients_are_not_called_sums_where_only_the_norm_is_that_of_the_sums(grade: Grade, tmp_path):
    """Where gradients are clipped, their mean and their sum become the same."""
    source = """
import jax
import jax.numpy as jnp
from p11_gradient_clipping import clip_by_global_norm as clip


def accumulated_gradients(loss_sum, parameters, token_ids, microbatches, max_norm):
    def add(sums, rows):
        (loss, count), gradients = jax.value_and_grad(loss_sum, has_aux=True)(parameters, rows)
        return jax.tree.map(jnp.add, sums, (loss, count, gradients)), None

    nothing = (0.0, 0, jax.tree.map(jnp.zeros_like, parameters))
    rows = token_ids.reshape(microbatches, -1, token_ids.shape[1])
    (loss, count, sums), _ = jax.lax.scan(add, nothing, rows)
    mean = jax.tree.map(lambda gradient: gradient / count, sums)
    return loss / count, clip(mean, max_norm)[0], clip(sums, max_norm)[1]
"""
    report = graded(grade, tmp_path, "12", "p11_gradient_clipping", source)
    assert next(check["name"] for check in report["checks"] if not check["passed"]) == "norm before clipping"
    assert report["misconception"]["name"] == misconception_name("12", "norm * count")
