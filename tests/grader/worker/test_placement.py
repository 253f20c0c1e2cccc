"""Arrays that are moved in a traced program: where its outputs are, and the bytes that each device holds of them."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker import stablehlo
from grader.worker.measures import MEASURES, Execution
from grader.worker.placement import mesh_of
from grader.worker.tracing import Given, trace
from grader.worker.witness import Witness

DEVICES = 8
jax.config.update("jax_num_cpu_devices", DEVICES)  # for this process, which has not used JAX yet


def test_an_array_is_where_device_put_moves_it_and_one_that_stays_is_on_one_device():
    split = NamedSharding(mesh_of(DEVICES, axes=("data",)), PartitionSpec("data"))
    arrays = [Given("case", name, (16, 3), jnp.float32) for name in ("moved", "kept")]

    def program(moved, kept):
        with stablehlo.placements_are_traced():
            return {"moved": jax.device_put(moved, split), "kept": kept, "sum": jax.device_put(moved + kept, split)}

    witness = Witness((DEVICES,))
    compiled = witness._compile(trace(program, *arrays))
    execution = Execution(compiled, [], Case({}))
    placed = {name: axes.tolist() for name, axes in MEASURES["placed"](execution).items()}
    assert placed["moved"] == placed["sum"] == [1, 0]
    assert placed["kept"] == [-1, -1]
    kept = compiled.shardings("output")[1].shard_shape((16, 3))
    assert MEASURES["bytes_of_outputs"](execution) == 4 * (6 + kept[0] * kept[1] + 6)


def test_without_it_the_program_says_nothing_of_where_the_array_is():
    split = NamedSharding(mesh_of(DEVICES, axes=("data",)), PartitionSpec("data"))
    x = Given("case", "x", (16, 3), jnp.float32)
    case = Case({"x": jnp.ones((16, 3))})
    found = Witness((DEVICES,)).run(trace(lambda x: {"x": jax.device_put(x, split)}, x), case, ["placed"])
    assert found["program.placed.x"].tolist() == [-1, -1]
