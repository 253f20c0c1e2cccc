"""The private parts of JAX, Flax and Orbax that the project uses still do what it uses them for: a test for each of
them.

`docs/maintaining.md` lists them. Where a private part makes up for something that JAX lacks, its test also asserts that
JAX still lacks it. So this file says which part a new version has moved, and which part the project no longer needs.
"""

import importlib
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker import stablehlo
from grader.worker.placement import mesh_of
from grader.worker.pytrees import BadOutputError
from grader.worker.tracing import Given, trace, trace_of
from grader.worker.witness import Witness
from grader.worker.xla_flags import QUICK_TO_COMPILE
from problems.p27_reshard_on_restore import probes as resharding
from tests.conftest import ROOT

pytestmark = [pytest.mark.fast, pytest.mark.private]

jax.config.update("jax_num_cpu_devices", 8)  # for this process, which has not used JAX yet

X = Given("case", "x", (4,), jnp.float32)
CASE = Case({"x": np.arange(4, dtype=np.float32)})
TEXT = (ROOT / "docs" / "maintaining.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^### (.+)\n\n((?:[-\s] .*\n)+)", TEXT, re.MULTILINE))
# Imports of private modules, also in the programs that tests hold as texts, and replacements of functions
PRIVATE = re.compile(r"^\s*(?:from|import) (?:[\w.]+\._src\b|jaxlib|jax\.interpreters)|\bpatch\.object\(", re.MULTILINE)


def test_every_use_of_a_private_part_is_listed():
    listed = set(re.findall(r"`([\w/]+\.py)`", "".join(PARTS.values())))
    assert [path for path in listed if not (ROOT / path).is_file()] == []
    folders = ("benchmarks", "commandline", "docs", "grader", "harness", "problems", "solutions", "studio", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    users = {str(path.relative_to(ROOT)) for path in files if PRIVATE.search(path.read_text(encoding="utf-8"))}
    assert users - listed == set()


def test_every_part_is_explained_and_has_a_test():
    for part, text in PARTS.items():
        assert re.findall(r"^- \*\*([\w ]+):\*\*", text, re.MULTILINE) == [
            "What", "Where", "Why", "If it moves", "Not needed when"
        ], part  # fmt: skip
        assert f"test_{re.sub(r'[^a-z]+', '_', part.lower())}" in globals(), part


def test_meshes_inside_a_trace():
    def program(x):
        with jax.set_mesh(mesh_of(8, axes=("data",))):
            return {"y": 2 * x}

    assert trace(program, X).outputs == ["y"]
    with pytest.raises(ValueError, match="set_mesh"):
        jax.jit(program)(jnp.ones(4))


def placed(program):
    """The mesh axis of each of the program's outputs, as a witness measures it on eight devices."""
    x = Given("case", "x", (8,), jnp.float32)
    found = Witness((8,)).run(trace(program, x), Case({"x": np.ones(8, np.float32)}), ["placed"])
    return [value.tolist() for path, value in found.items() if path.startswith("program.placed.")]


def test_placements_inside_a_trace():
    split = NamedSharding(mesh_of(8, axes=("data",)), PartitionSpec("data"))

    def program(x):
        return {"moved": jax.device_put(x, split), "made": jnp.zeros(8, device=split)}

    def recorded(x):
        with stablehlo.placements_are_traced():
            return program(x)

    assert placed(recorded) == [[1], [1]]
    assert [1] not in placed(program)


def test_programs_as_bytes():
    def one(x):
        return {"y": jax.jit(lambda x: jnp.sin(x))(x)}

    def other(x):
        def sine(x):
            return jnp.sin(x)

        return {"y": jax.jit(sine)(x)}

    module = trace(one, X).module
    assert module == trace(other, X).module
    assert stablehlo.serialized(stablehlo.parsed(module)) == module
    exported = [jax.export.export(jax.jit(each))(X.spec()).mlir_module_serialized for each in (one, other)]
    assert exported[0] != exported[1]


CUSTOM = """
import jax, jax.numpy as jnp

@jax.custom_vjp
def sine(x):
    return jnp.sin(x)

def forward(x):
    return jnp.sin(x), x

def backward(x, slope):
    return (slope * jnp.cosh(x),)

sine.defvjp(forward, backward)
"""


def test_lines_of_the_source():
    file: dict[str, Any] = {}
    exec(compile(CUSTOM, "custom.py", "exec"), file)

    def program(x):
        return {"y": jax.grad(lambda x: jnp.sum(file["sine"](x)))(x)}

    def places(module):
        return {place for each in stablehlo.operations(stablehlo.parsed(module)) for place in stablehlo.places(each)}

    with stablehlo.keeping_places(["custom.py"]):
        kept = trace(program, X).module
    assert ("custom.py", "backward", 12) in places(kept)
    assert places(trace(program, X).module) == set()


def test_programs_as_objects():
    def program(x):
        image = jnp.reshape(x, (1, 1, 4))
        products = jnp.einsum("bij,bkj->bik", image, image)
        smooth = jax.lax.conv_general_dilated(image, jnp.ones((3, 1, 2)), (1,), "SAME")
        _, total = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, jnp.sum(x)))
        return {"products": products, "smooth": smooth, "cumulative": jnp.cumsum(x), "total": total}

    module = stablehlo.parsed(trace(program, X).module)
    found = {each.name.removeprefix("stablehlo."): each for each in stablehlo.operations(module)}
    assert stablehlo.parameters(module) == [((4,), "f32")]
    assert stablehlo.result_shapes(module) == [(1, 1, 1), (1, 3, 4), (4,), ()]
    assert stablehlo.contracted_axes(found["dot_general"]) == [2]
    assert stablehlo.batch_axes(found["dot_general"]) == 1
    assert stablehlo.output_features_axis(found["convolution"]) == 0
    assert stablehlo.padding(found["reduce_window"]) == [[3, 0]]
    assert stablehlo.carried_bytes(found["while"]) == 8


def test_compiled_programs():
    program = trace(lambda x: {"y": jnp.cumsum(x)}, X)
    executable = stablehlo.compiled(program.module, jax.devices()[:2])
    (sharding,) = stablehlo.shardings(executable.get_output_shardings(), jax.devices()[:2])
    assert sharding.shard_shape((4,)) == (4,)
    assert Witness().run(program, CASE)["y"].tolist() == [0, 1, 3, 6]


def test_calls_of_libraries():
    program = trace(lambda x: {"values": jnp.linalg.svd(jnp.diag(x), compute_uv=False)}, X)
    np.testing.assert_allclose(Witness().run(program, CASE)["values"], [3, 2, 1, 0], atol=1e-6)
    assert {"lapack_sgesdd_ffi", "xla_ffi_python_cpu_callback"} <= stablehlo.custom_calls()


def test_traced_arrays():
    split = NamedSharding(mesh_of(8, axes=("data",)), PartitionSpec("data"))
    x = Given("case", "x", (8,), jnp.float32, sharding=split)
    seen = []

    def program(x):
        seen.append((x.sharding, trace_of(x)))
        return {"y": x + 1}

    trace(program, x)
    assert [sharding for sharding, _ in seen] == [split] * len(seen)
    assert all(innermost is not None for _, innermost in seen)
    with pytest.raises(AttributeError):
        jax.jit(lambda x: x.sharding and x)(jnp.ones(8))


def test_donated_arrays():
    donating = jax.jit(lambda x, unused: x + 1, donate_argnums=(0, 1))

    def program(x):
        donating(x, jnp.ones(3))
        return {"y": x + 1}  # after its memory was given up

    with pytest.raises(BadOutputError, match="used again") as caught:
        trace(program, X)
    assert (Path(__file__), "program") in [(entry.path, entry.name) for entry in caught.traceback]


def test_flags_of_xla():
    """XLA itself has read the flags of this process: `tests/test_programs.py` asserts their effects."""
    assert "xla_cpu_parallel_codegen_split_count=1" in QUICK_TO_COMPILE, "does this jaxlib know the flag?"


def test_the_store_of_several_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code = (
        "import sys, jax; from harness import processes\n"
        "jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))\n"
        "print(processes.decided_by_first(lambda: f'process {sys.argv[2]}'))"
    )
    command = [sys.executable, "-c", code, address]
    started = [
        subprocess.Popen([*command, number], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in "01"
    ]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert out == "process 0\n", err


def test_updates_of_optimizers(monkeypatch: pytest.MonkeyPatch):
    model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    original, updates = nnx.Optimizer.update, []

    def update(*args, **kwargs):
        updates.append(args)
        original(*args, **kwargs)

    monkeypatch.setattr(nnx.Optimizer, "update", update)
    nnx.jit(lambda model, optimizer: optimizer.update(model, nnx.state(model, nnx.Param)))(model, optimizer)
    assert len(updates) == 1


def test_what_orbax_reads(tmp_path: Path):
    arrays = {"weights": jnp.arange(4.0)}
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "checkpoint", arrays)
        restoring = ocp.args.PyTreeRestore(arrays, restore_args=ocp.checkpoint_utils.construct_restore_args(arrays))
        with resharding._asked_of_orbax() as asked:
            checkpointer.restore(tmp_path / "checkpoint", args=restoring)
    assert [(name, array.tolist()) for _, name, array in asked] == [("weights", [0, 1, 2, 3])]


def test_programs_of_the_tests():
    """`tests/test_programs.py` asserts that they are shared. What they replace is in JAX."""
    cache = importlib.import_module("jax._src.compilation_cache")
    for name in ("get_file_cache", "get_executable_and_time", "put_executable_and_time", "reset_cache"):
        assert callable(getattr(cache, name)), name


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("jax._src.compilation_cache", "extract_executable_and_time"),
        ("jax._src.compilation_cache", "decompress_executable"),
        ("jax._src.lax.linalg", "geqrf"),
        ("jax.interpreters.mlir", "register_lowering"),
        ("jaxlib.mlir.dialects", "stablehlo"),
        ("optax._src.alias", "adamw"),
    ],
)
def test_programs_that_attack(module: str, name: str):
    """An attack that fails because a name is gone would prove nothing."""
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")
