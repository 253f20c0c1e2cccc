"""The witness: it refuses programs that call into the process, and a program that crashes it harms nobody else."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import submission
from grader.judge.worker_session import Outcome, Session
from grader.problem import Case
from grader.wire.program import Input, Program, request
from grader.worker import cost, stablehlo, witness
from grader.worker.measures import MEASURES

ROUNDS, SEED = 30, 14


def module(text: str) -> bytes:
    """Portable bytecode of a program in MLIR's text."""
    with stablehlo.context():
        return stablehlo.serialized(stablehlo.ir.Module.parse(text))


def calling(target: str) -> Program:
    text = (
        "module @program { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
        f'%0 = stablehlo.custom_call @"{target}"(%arg0) {{api_version = 4 : i32, backend_config = {{}}}}'
        " : (tensor<3xf32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32> } }"
    )
    return Program(module(text), [Input("case", "x", (3,), "float32")], ["output"])


def honest() -> Program:
    def main(x: jax.Array) -> jax.Array:
        return jnp.cumsum(jnp.sin(x))

    exported = export.export(jax.jit(main))(jax.ShapeDtypeStruct((3,), jnp.float32))
    return Program(exported.mlir_module_serialized, [Input("case", "x", (3,), "float32")], ["output"])


def of_unknown_size(kind: str) -> Program:
    """A program that computes with an array whose size MLIR does not know, and XLA does."""
    text = (
        "module @program { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
        f"%0 = stablehlo.convert %arg0 : (tensor<3xf32>) -> {kind}\n"
        f"%1:2 = stablehlo.optimization_barrier %arg0, %0 : tensor<3xf32>, {kind}\n"
        "return %1#0 : tensor<3xf32> } }"
    )
    return Program(module(text), [Input("case", "x", (3,), "float32")], ["output"])


CASE = Case({"x": np.arange(3, dtype=np.float32)}, seed=5)
EXPECTED = np.cumsum(np.sin(np.arange(3, dtype=np.float32)))


def ask(fork_server: ForkServer, programs: list[Program], seconds: float = 60) -> list[Outcome]:
    """What a new witness answers to each program in turn."""
    problem = catalog.find("07")
    session = Session(problem, fork_server.worker(submission.job(problem)), seconds)
    try:
        assert session.begin() is None
        return [session.run(request(program.frame(), dict(CASE.values), CASE.seed, [])) for program in programs]
    finally:
        session.worker.close()


def test_a_program_is_run_and_measured():
    arrays = witness.Witness().run(honest(), CASE, sorted(set(MEASURES) & {"temporary_bytes", "operations", "work"}))
    np.testing.assert_allclose(arrays["output"], EXPECTED, rtol=1e-6)
    assert arrays["program.operations"] > 0


@pytest.mark.parametrize("kind", ["tensor<?xf32>", "tensor<?xf32, #stablehlo.bounds<3>>"])
def test_arrays_of_unknown_size_are_refused(kind: str):
    """Their size is a number below 0 here, and with it all that is counted."""
    with pytest.raises(witness.RefusedProgramError, match="unknown sizes"):
        witness.Witness().run(of_unknown_size(kind), CASE)


def test_sorting_costs_comparisons_that_compute_nothing():
    text = (
        "module @program { func.func public @main(%arg0: tensor<8xi1>, %arg1: tensor<8xf32>) -> tensor<8xf32> {\n"
        '%0:2 = "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}> ({\n'
        "^bb0(%a: tensor<i1>, %b: tensor<i1>, %c: tensor<f32>, %d: tensor<f32>): stablehlo.return %a : tensor<i1>\n"
        "}) : (tensor<8xi1>, tensor<8xf32>) -> (tensor<8xi1>, tensor<8xf32>)\nreturn %0#1 : tensor<8xf32> } }"
    )
    parsed = stablehlo.parsed(module(text))
    (sort,) = [each for each in stablehlo.operations(parsed) if each.name == "stablehlo.sort"]
    assert cost.cost(sort, {}) == 8 * 3 + 8  # and the second array is written at computed places


def test_a_name_of_several_lines_is_refused():
    """The text of a compiled program is read line by line."""
    text = (
        "module @program { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> { return %arg0 : "
        "tensor<3xf32> } }"
    )
    inputs = [Input("case", "x", (3,), "float32")]
    witness.check(Program(module(text), inputs, ["output"]))
    note = '{mhlo.frontend_attributes = {note = "{\\0A%hidden (x: f32[]) -> f32[] {\\0A}}"}}'
    told = text.replace("return %arg0", f"%0 = stablehlo.negate %arg0 {note} : tensor<3xf32>\nreturn %0")
    with pytest.raises(witness.RefusedProgramError, match="several lines"):
        witness.check(Program(module(told), inputs, ["output"]))


def test_only_listed_calls_are_accepted():
    known = stablehlo.custom_calls()
    assert "xla_ffi_python_cpu_callback" in known
    for target in sorted(known | {"anything"}):
        program = calling(target)
        if target in cost.CUSTOM_CALLS or target not in known:
            witness.check(program)  # an unknown target has no function, so XLA refuses it
        else:
            with pytest.raises(witness.RefusedProgramError, match=target):
                witness.check(program)


def test_a_composite_is_what_it_consists_of():
    """XLA has its own operation `chlo.erf`, which would take the place of these parts."""

    def main(x: jax.Array) -> jax.Array:
        return jax.lax.composite(lambda x: 3 * x, "chlo.erf", version=1)(x)

    exported = export.export(jax.jit(main))(jax.ShapeDtypeStruct((3,), jnp.float32))
    assert b"chlo.erf" in exported.mlir_module_serialized
    program = Program(exported.mlir_module_serialized, [Input("case", "x", (3,), "float32")], ["output"])
    found = witness.Witness().run(program, CASE, ["work"])
    assert found["output"].tolist() == [0, 3, 6]
    assert found["program.work"] == 3


def test_outputs_cannot_be_named_like_measures(fork_server: ForkServer):
    forged = Program(honest().module, honest().inputs, ["program.temporary_bytes"])
    [outcome] = ask(fork_server, [forged])
    assert outcome.failure


def test_inputs_that_do_not_exist_or_do_not_fit(fork_server: ForkServer):
    strange = [
        Program(honest().module, inputs, ["output"])
        for inputs in (
            [],
            [Input("case", "y", (3,), "float32")],
            [Input("case", "x", (4,), "float32")],
            [Input("filled", "x", (2,), "float32")],
            [Input("filled", "x", (3,), "int32")],
            [Input("filled", "x", (1 << 20, 1 << 20), "float32")],
            [Input("filled", "x", (3,), "no such dtype")],
            [Input("case", "x", (3,), "float32")] * 2,
        )
    ]
    for program in strange:
        assert ask(fork_server, [program])[0].failure, program.inputs


def test_a_decomposition_runs_in_a_process_that_has_lowered_none(fork_server: ForkServer):
    def main(x: jax.Array) -> jax.Array:
        return jnp.linalg.svd(jnp.diag(x), compute_uv=False)

    exported = export.export(jax.jit(main), platforms=["cpu"])(jax.ShapeDtypeStruct((3,), jnp.float32))
    [outcome] = ask(fork_server, [Program(exported.mlir_module_serialized, honest().inputs, ["output"])])
    assert not outcome.failure, outcome.failure
    np.testing.assert_allclose(outcome.leaves[0].values, [2, 1, 0], atol=1e-6)


def test_mutated_programs_end_one_witness_at_most(fork_server: ForkServer):
    """Whatever XLA does with them, the outcome is a failure or numbers, in time, and the next witness is right."""
    rng = random.Random(SEED)
    original = honest().module
    for _ in range(ROUNDS):
        damaged = bytearray(original)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(6, len(damaged))] = rng.randrange(256)
        mutant = Program(bytes(damaged), honest().inputs, ["output"])
        try:
            witness.check(mutant)
        except witness.RefusedProgramError:
            continue
        [outcome] = ask(fork_server, [mutant])
        assert outcome.failure or [leaf.path for leaf in outcome.leaves] == ["output"]
    [outcome] = ask(fork_server, [honest()])
    np.testing.assert_allclose(outcome.leaves[0].values, EXPECTED, rtol=1e-6)


def test_a_program_that_never_ends_is_stopped(fork_server: ForkServer):
    def forever(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda y: jnp.all(y < 1e9), lambda y: y * 0 + x, x)

    exported = export.export(jax.jit(forever))(jax.ShapeDtypeStruct((3,), jnp.float32))
    program = Program(exported.mlir_module_serialized, [Input("case", "x", (3,), "float32")], ["output"])
    [outcome] = ask(fork_server, [program], seconds=3)
    assert outcome.failure
    assert outcome.failure.kind == "timeout"
