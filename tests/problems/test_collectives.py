"""The references of the problems on collectives agree with programs on one device, and with JAX's own attention."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType

from tests.conftest import ROOT

jax.config.update("jax_num_cpu_devices", 8)  # for this process, which has not used JAX yet


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def mesh(axis: str) -> jax.sharding.Mesh:
    return jax.make_mesh((8,), (axis,), axis_types=(AxisType.Auto,))


def close(left, right):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), left, right)


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("name", ["tensor_parallel_mlp", "sequence_parallel_mlp"])
def test_a_parallel_mlp_equals_the_plain_one(name):
    import p47_collectives

    arrays = normal(8, 5), normal(5, 16), normal(16), normal(16, 5), normal(5)
    x, w1, b1, w2, b2 = arrays
    parallel = getattr(p47_collectives, name)
    close(jax.jit(lambda *arrays: parallel(*arrays, mesh("model")))(*arrays), jax.nn.relu(x @ w1 + b1) @ w2 + b2)


def test_a_data_parallel_gradient_equals_that_of_the_mean():
    from p47_collectives import data_parallel_gradient

    logits, ids = {"table": normal(7, 7)}, jnp.arange(24).reshape(8, 3) % 7

    def losses(parameters, ids):
        return optax.softmax_cross_entropy_with_integer_labels(parameters["table"][ids], ids)

    def loss_sum(parameters, ids):
        return losses(parameters, ids).sum(), jnp.int32(ids.size)

    got = jax.jit(lambda p, ids: data_parallel_gradient(loss_sum, p, ids, mesh("data")))(logits, ids)
    close(got, jax.jit(jax.value_and_grad(lambda p: losses(p, ids).mean()))(logits))


def test_ring_attention_equals_that_of_jax_with_its_gradient():
    from p49_ring_attention import ring_attention

    q, k, v, slope = normal(24, 5), normal(24, 5) * 2, normal(24, 5) - 1, normal(5)

    def oracle(q, k, v):
        return jax.nn.dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]

    def both(attention):
        return jax.jit(jax.value_and_grad(lambda *arrays: jnp.sum(attention(*arrays) @ slope), (0, 1, 2)))(q, k, v)

    def ring(q, k, v):
        return ring_attention(q, k, v, mesh("context"))

    close(jax.jit(ring)(q, k, v), jax.jit(oracle)(q, k, v))
    close(both(ring), both(oracle))


def test_a_split_optimizer_takes_the_steps_of_optax_on_one_device():
    from p69_zero_optimizer import zero_state, zero_step

    parameters, ids = {"bias": normal(7), "table": normal(7, 7)}, jnp.arange(24).reshape(8, 3) % 7

    def losses(parameters, ids):
        return optax.softmax_cross_entropy_with_integer_labels(parameters["table"][ids] + parameters["bias"], ids)

    def loss_sum(parameters, ids):
        return losses(parameters, ids).sum(), jnp.int32(ids.size)

    step = jax.jit(lambda p, s, ids: zero_step(loss_sum, p, s, ids, mesh("data"), 0.1, 0.2))
    tx = optax.chain(optax.clip_by_global_norm(0.2), optax.adam(0.1))
    one_device, moments, state = parameters, tx.init(parameters), zero_state(parameters, mesh("data"))
    assert {shard.data.shape for shard in state["m"].addressable_shards} == {(7,)}
    for _ in range(3):
        parameters, state, loss, norm = step(parameters, state, ids)
        expected, slopes = jax.value_and_grad(lambda p: losses(p, ids).mean())(one_device)
        updates, moments = tx.update(slopes, moments)
        one_device = optax.apply_updates(one_device, updates)
        close((parameters, loss, norm), (one_device, expected, optax.global_norm(slopes)))
    assert state["count"] == 3


@pytest.mark.parametrize("microbatches", [1, 5])
def test_a_pipeline_has_the_loss_and_the_gradients_of_one_device(microbatches):
    from p68_pipeline_parallel import pipeline_step

    four = jax.make_mesh((4,), ("stage",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    parameters, x, targets = {"w": normal(4, 3, 3), "b": normal(4, 3)}, *normal(2, microbatches, 2, 3)

    def stage(own, x):
        return jnp.tanh(x @ own["w"] + own["b"])

    def loss(y, target):
        return jnp.sum(jnp.square(y - target))

    def on_one_device(parameters):
        y = x
        for number in range(4):
            y = stage(jax.tree.map(lambda array, number=number: array[number], parameters), y)
        return jnp.mean(jax.vmap(loss)(y, targets))

    got = jax.jit(lambda *arrays: pipeline_step(stage, loss, *arrays, four))(parameters, x, targets)
    close(got, jax.value_and_grad(on_one_device)(parameters))


def test_a_schedule_runs_every_microbatch_on_every_stage_in_order():
    from p68_pipeline_parallel import forward_schedule

    for stages, microbatches in ((1, 1), (4, 2), (3, 7)):
        table = np.asarray(forward_schedule(stages, microbatches))
        assert table.shape == (stages + microbatches - 1, stages)
        for stage in range(stages):
            assert [m for m in table[:, stage] if m >= 0] == list(range(microbatches))
            assert list(table[:, stage]).index(0) == stage
