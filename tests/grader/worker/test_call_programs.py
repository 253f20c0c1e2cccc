"""The programs of a function that is not jitted as a whole: each is compiled alone, and places what it returns
itself."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from grader.worker.call_programs import stages
from grader.worker.placement import mesh_of
from grader.worker.tracing import trace
from grader.worker.witness import Witness

SHAPE, DEVICES = (16, 3), 8
jax.config.update("jax_num_cpu_devices", DEVICES)  # for this process, which has not used JAX yet


def staged(function: Callable[[Any], Any]) -> list[Any]:
    """The stages of a function of a sharding over the mesh axis `data`."""
    split = NamedSharding(mesh_of(DEVICES, axes=("data",)), PartitionSpec("data"))
    witness = Witness((DEVICES,))
    return stages(witness._compile(trace(lambda: {"out": function(split)})))


def create() -> Any:
    return jnp.sin(jax.lax.iota(jnp.float32, 48)).reshape(SHAPE)


def test_a_sharding_does_not_reach_the_program_before():
    whole, split = staged(lambda split: jax.jit(lambda x: x, out_shardings=split)(jax.jit(create)()))
    assert [array.part for array in whole.arrays] == [SHAPE]
    assert [(array.part, array.axes.tolist()) for array in split.arrays] == [((2, 3), [1, 0])]
    assert (whole.arrays[0].outputs, whole.arrays[0].returned) == ({0}, frozenset())
    assert split.arrays[0].returned == {0}
    assert (whole.held, split.held) == (48, 48 + 6)


def test_a_program_that_creates_parts_holds_no_more_than_parts():
    (stage,) = staged(lambda split: jax.jit(create, out_shardings=split)())
    assert (stage.largest, stage.held) == (6, 6)


def test_an_array_that_is_whole_for_a_moment_is_seen_inside_a_program():
    def function(split: Any) -> Any:
        whole = NamedSharding(split.mesh, PartitionSpec())
        barrier = jax.lax.optimization_barrier
        return jax.jit(lambda: barrier(jax.lax.with_sharding_constraint(create(), whole)), out_shardings=split)()

    (stage,) = staged(function)
    assert (stage.largest, stage.held) == (48, 6)


def test_an_operation_outside_jit_is_a_program_of_its_own():
    created, *filled, product = staged(lambda split: jax.jit(create, out_shardings=split)() * jnp.full(SHAPE, 2.0))
    assert [stage.arrays[0].part for stage in (created, product)] == [(2, 3), (2, 3)]
    assert {stage.arrays[0].part for stage in filled} == {SHAPE}
    assert product.held == 6 + 48 + 6


@pytest.mark.parametrize("index", [0, 1])
def test_what_a_branch_uses_is_taken_from_outside(index: int):
    def function(split: Any) -> Any:
        x = jax.jit(create, out_shardings=split)()
        return jax.lax.cond(jnp.sum(x) > index, lambda: x + 1, lambda: x - 1)

    found = staged(function)
    assert all(array.outputs == {0} for stage in found for array in stage.arrays)
    assert found[-1].held >= 12
