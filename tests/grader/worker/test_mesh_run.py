"""What devices send is that of the program as it was traced, and arrives as it was sent."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from grader.worker import stablehlo
from grader.worker.mesh_run import MeshRun, run_on_mesh
from grader.worker.placement import mesh_of, placed
from grader.worker.tracing import Given, trace
from grader.worker.witness import RefusedProgramError, Witness

pytestmark = pytest.mark.fast
jax.config.update("jax_num_cpu_devices", 8)  # for this process, which has not used JAX yet

P = PartitionSpec
N = 64  # numbers, of which each device has 8
X = np.random.default_rng(0).standard_normal(N, np.float32)


def run(function: Callable[[Any], Any], shape: tuple[int, ...] = (8,)) -> MeshRun:
    """A run of a function of the device's part of X, inside of `shard_map`, on a mesh of this shape."""
    mesh = mesh_of(*shape)
    split = P(mesh.axis_names)
    return outside(jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=False))


def outside(function: Callable[[Any], Any]) -> MeshRun:
    """A run of a function of X, which is split over eight devices."""
    x = placed(Given("case", "x", (N,), jnp.float32), mesh_of(8), P("data"))
    return run_on_mesh(Witness().sound(trace(lambda x: {"y": function(x)}, x)), {"x": X})


def gather(x: Any, axes: Any = "data") -> Any:
    return lax.all_gather(x, axes, tiled=True)


def scatter(x: Any) -> Any:
    return lax.psum_scatter(x, "data", tiled=True)


def turn(x: Any) -> Any:
    return lax.all_to_all(x, "data", 0, 0, tiled=True)


def test_each_collective_sends_what_its_result_needs():
    size = 4 * N
    assert run(lambda x: x + gather(x).sum()).sent == {"all gather 8 f32": 7 * size}
    assert run(lambda x: scatter(jnp.tile(x, 8))).sent == {"reduce scatter 64 f32": 7 * size}
    assert run(lambda x: lax.psum(jnp.tile(x, 8), "data")[:8]).sent == {"all reduce 64 f32": 14 * size}
    assert run(turn).sent == {"all to all 8 f32": 7 * size // 8}
    one_stays = [(0, 0), *((device, device % 7 + 1) for device in range(1, 8))]
    assert run(lambda x: lax.ppermute(x, "data", one_stays)).sent == {"collective permute 8 f32": 7 * size // 8}
    assert run(lambda x: gather(x.astype(jnp.bfloat16)).astype(jnp.float32)[:8]).sent.total() == 7 * size // 2


def test_groups_send_only_inside():
    size = 4 * N
    assert run(lambda x: gather(x, "data")[:8], (2, 4)).sent.total() == size, "four groups of two"
    assert run(lambda x: gather(x, "model")[:8], (2, 4)).sent.total() == 3 * size, "two groups of four"
    assert run(lambda x: gather(x, ("data", "model"))[:8], (2, 4)).sent.total() == 7 * size


def test_what_is_gathered_twice_counts_twice_and_a_loop_as_often_as_it_turns():
    once = 7 * 4 * N
    twice = run(lambda x: jnp.sin(gather(x))[:8] + lax.optimization_barrier(jnp.cos(gather(x)))[:8])
    assert twice.sent.total() == 2 * once
    assert run(lambda x: lax.fori_loop(0, 5, lambda i, x: gather(x)[:8] / 2, x)).sent.total() == 5 * once
    seldom = run(lambda x: lax.cond(x[0] > 1e6, lambda: gather(x)[:8], lambda: x))
    assert seldom.sent.total() == 0


def test_groups_of_replicas_have_all_devices():
    """No program of JAX has them. XLA sums over all devices, although the group names only one."""
    x = placed(Given("case", "x", (N,), jnp.float32), mesh_of(8), P("data"))
    total = jax.shard_map(lambda x: lax.psum(x, "data"), mesh=mesh_of(8), in_specs=P("data"), out_specs=P())
    program = trace(lambda x: {"y": total(x)}, x)
    parsed = stablehlo.parsed(program.module)
    with parsed.context, stablehlo.ir.Location.unknown():
        (collective,) = [each for each in stablehlo.operations(parsed) if each.name == "stablehlo.all_reduce"]
        del collective.attributes["use_global_device_ids"]
        alone: Any = np.zeros((1, 1), np.int64)
        collective.attributes["replica_groups"] = stablehlo.ir.DenseElementsAttr.get(alone)
        forged = replace(program, module=stablehlo.serialized(parsed))
    found = run_on_mesh(Witness().sound(forged), {"x": X})
    np.testing.assert_allclose(found.outputs["y"], X.reshape(8, 8).sum(0), rtol=1e-5)
    assert found.sent.total() == 14 * 4 * N // 8


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.flip(x),
        lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh_of(8), P())) + 1,
        lambda x: jax.shard_map(
            lambda x: x[:8], mesh=mesh_of(8), in_specs=P(), out_specs=P("data"), check_vma=False
        )(x),
    ],
)  # fmt: skip
def test_a_collective_that_xla_adds_is_refused(function: Callable[[Any], Any]):
    with pytest.raises(RefusedProgramError, match="XLA adds a collective"):
        outside(function)


@pytest.mark.parametrize(("dtype", "least"), [(jnp.bfloat16, 1e-3), (jnp.float16, 1e-4), (jnp.float8_e4m3fn, 1e-2)])
def test_numbers_arrive_as_precise_as_they_were_sent(dtype: Any, least: float):
    """Although a CPU sends them in more bits."""
    ways = (
        lambda x: scatter(gather(x.astype(dtype)).astype(jnp.float32)) / 8,
        lambda x: scatter(gather(x).astype(dtype)).astype(jnp.float32) / 8,
        lambda x: turn(turn(x.astype(dtype))).astype(jnp.float32),
        lambda x: lax.ppermute(x.astype(dtype), "data", [(n, n) for n in range(8)]).astype(jnp.float32),
    )
    for way in ways:
        found = np.asarray(run(way).outputs["y"])
        assert least < np.linalg.norm(found - X) / np.linalg.norm(X) < 8 * least


def test_work_and_memory_are_those_of_one_device_inside_and_all_outside():
    inside = run(lambda x: jnp.sin(x))
    assert inside.work == N // 8
    assert outside(jnp.sin).work == N
    whole = run(lambda x: jnp.sin(gather(x)).sum() + x)
    assert whole.peak >= 4 * N
