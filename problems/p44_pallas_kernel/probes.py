"""Probes of problem 44: the two passes on given cotangents, and the program that the same code gives for a TPU."""

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax.experimental import pallas as pl

from grader.problem import Case
from grader.wire.program import Program
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
    """The program of the output as JAX lowers it for a TPU, where kernels are compiled and not interpreted."""
    sizes = (case.values["epsilon"], case.values["block"])
    shapes = [jax.ShapeDtypeStruct(np.shape(case.values[name]), np.float32) for name in ("x", "weight")]

    def norm(x: Any, weight: Any) -> Any:
        return subject.call("rms_norm", x, weight, *sizes)

    jax.clear_caches()  # of functions that were traced with interpreted kernels
    with _compiling():
        jax.eval_shape(norm, *shapes)  # what the submission itself raises is raised here
        try:
            exported = export.export(jax.jit(norm), platforms=["tpu"])(*shapes)
        except Exception as error:  # an operation that kernels for a TPU do not have fails in many ways
            why = " ".join(str(error).split())[:200]
            raise BadOutputError(
                f"JAX cannot compile its kernel for a TPU; use arithmetic by element, `jnp.sum` and `jnp.mean`: {why}"
            ) from None
    return Reading({"module": np.frombuffer(exported.mlir_module_serialized, np.uint8)})


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
    """What the program for a TPU consists of: whether it has a kernel that multiplies, and the arithmetic outside of kernels."""
    module = np.asarray(arrays["module"], np.uint8).tobytes()
    witness.check(Program(module, [], []))
    parsed = stablehlo.parsed(module)
    functions, kernels, outside = stablehlo.functions(parsed), 0, 0
    for operation in stablehlo.operations(parsed):
        if operation.name == "stablehlo.custom_call":
            kernels += _multiplies(operation)
        elif cost.computes_numbers(operation, functions):
            outside += 1
    return Reading({"tpu.has_a_kernel": np.int32(kernels > 0), "tpu.operations_outside": np.int32(outside)})


def _multiplies(call: Any) -> bool:
    """Whether a custom call is a kernel for a TPU whose body multiplies numbers."""
    if str(call.attributes["call_target_name"]).strip('"') != KERNEL:
        return False
    config = json.loads(str(call.attributes["backend_config"])[1:-1].replace("\\22", '"'))
    return b"mulf" in base64.b64decode(config["custom_call_config"]["body"])


PROBES = {"passes": passes, "for_tpu": for_tpu}
READERS = {"for_tpu": read}
