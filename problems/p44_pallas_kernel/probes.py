"""Probes of problem 44: the two passes on given cotangents, and the program that the same code gives for a TPU."""

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.extend
import numpy as np
from jax import export
from jax.experimental import pallas as pl

from grader.problem import Case
from grader.wire.program import Input, Program
from grader.worker import cost, stablehlo, witness
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Arrays, Reading, Subject, eager
from grader.worker.tracing import given

KERNEL = "tpu_custom_call"
COMPILING = [False]  # whether kernels are compiled, whatever the submission asks for

_pallas_call = pl.pallas_call


def _call(*args: Any, **kwargs: Any) -> Any:
    return _pallas_call(*args, **{**kwargs, **({"interpret": False} if COMPILING[0] else {})})


pl.pallas_call = _call


def passes(subject: Subject, case: Case) -> Reading:
    """The output, and the gradients for the case's cotangent. No arithmetic of this probe is in the program."""
    sizes = (case.values["epsilon"], case.values["block"])

    def program(x: Any, weight: Any, d_out: Any) -> Arrays:
        out, back = jax.vjp(lambda x, weight: subject.call("rms_norm", x, weight, *sizes), x, weight)
        if np.shape(out) != np.shape(d_out):
            raise BadOutputError(f"`rms_norm` returned the shape {np.shape(out)}; it must be {np.shape(d_out)}")
        d_x, d_weight = back(d_out)
        return {**named(out, "output"), **named(d_x, "gradient.x"), **named(d_weight, "gradient.weight")}

    return subject.run(program, case, given(case, "x"), given(case, "weight"), given(case, "d_out"))


@eager
def for_tpu(subject: Subject, case: Case) -> Reading:
    """The program of the output as JAX lowers it for a TPU, where kernels are compiled, and the same trace for a CPU, where they
    are interpreted. So the kernel that a TPU would run gives the output."""
    sizes = (case.values["epsilon"], case.values["block"])
    shapes = [jax.ShapeDtypeStruct(np.shape(case.values[name]), np.float32) for name in ("x", "weight")]

    def norm(x: Any, weight: Any) -> Any:
        return subject.call("rms_norm", x, weight, *sizes)

    jax.clear_caches()  # of functions that were traced with interpreted kernels
    with _compiling():
        traced = jax.make_jaxpr(norm)(*shapes)  # what the submission itself raises is raised here
        try:
            for_tpu = export.export(jax.jit(jax.extend.core.jaxpr_as_fun(traced)), platforms=["tpu"])(*shapes)
        except Exception as error:  # an operation that kernels for a TPU do not have fails in many ways
            why = " ".join(str(error).split())[:200]
            raise BadOutputError(
                f"JAX cannot compile its kernel for a TPU; use arithmetic by element, `jnp.sum` and `jnp.mean`: {why}"
            ) from None
    run = jax.jit(jax.extend.core.jaxpr_as_fun(traced.replace(jaxpr=_interpreted(traced.jaxpr))))
    for_cpu = export.export(run, platforms=["cpu"])(*shapes)
    modules = {"tpu": for_tpu, "cpu": for_cpu}
    return Reading({key: np.frombuffer(each.mlir_module_serialized, np.uint8) for key, each in modules.items()})


def _interpreted(jaxpr: Any) -> Any:
    """The trace with all kernels to be interpreted, those in functions and loops included."""

    def part(value: Any) -> Any:
        if isinstance(value, jax.extend.core.ClosedJaxpr):
            return value.replace(jaxpr=_interpreted(value.jaxpr))
        return _interpreted(value) if isinstance(value, jax.extend.core.Jaxpr) else value

    equations = []
    for equation in jaxpr.eqns:
        more = {"interpret": True} if equation.primitive.name == "pallas_call" else {}
        params = equation.params if more else {name: part(value) for name, value in equation.params.items()}
        equations.append(equation.replace(params={**params, **more}))
    return jaxpr.replace(eqns=equations)


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    device = jax.sharding.AbstractDevice("TPU v5e", 1, platform="tpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        COMPILING[0] = True
        try:
            yield
        finally:
            COMPILING[0] = False


def read(arrays: Mapping[str, Any], files: Path, case: Case) -> Reading:
    """What the program for a TPU consists of: whether it has a kernel that multiplies, and the arithmetic outside of kernels. And
    the output of the same trace on the CPU."""
    module, for_cpu = (np.asarray(arrays[name], np.uint8).tobytes() for name in ("tpu", "cpu"))
    witness.check(Program(module, [], []))
    inputs = [Input("case", name, np.shape(case.values[name]), "float32") for name in ("x", "weight")]
    output = witness.Witness().run(Program(for_cpu, inputs, ["output"]), case)["output"]
    parsed = stablehlo.parsed(module)
    functions, kernels, outside = stablehlo.functions(parsed), 0, 0
    for operation in stablehlo.operations(parsed):
        if operation.name == "stablehlo.custom_call":
            kernels += _multiplies(operation)
        elif cost.computes_numbers(operation, functions):
            outside += 1
    found = {"has_a_kernel": np.int32(kernels > 0), "operations_outside": np.int32(outside), "output": output}
    return Reading({f"tpu.{name}": value for name, value in found.items()})


def _multiplies(call: Any) -> bool:
    """Whether a custom call is a kernel for a TPU whose body multiplies numbers."""
    if str(call.attributes["call_target_name"]).strip('"') != KERNEL:
        return False
    config = json.loads(str(call.attributes["backend_config"])[1:-1].replace("\\22", '"'))
    return b"mulf" in base64.b64decode(config["custom_call_config"]["body"])


PROBES = {"passes": passes, "for_tpu": for_tpu}
READERS = {"for_tpu": read}
