"""Probes of problem 44: the two passes on given cotangents, and the program that the same code gives for a TPU."""

import base64
import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.extend
import numpy as np
from jax import export
from jax.experimental import pallas as pl

from grader.authoring import (
    LOOP,
    Arrays,
    BadOutputError,
    Input,
    Program,
    Reading,
    Subject,
    computes_numbers,
    eager,
    given,
    named,
    stablehlo,
    witness,
)
from grader.problem import Case

KERNEL = "tpu_custom_call"
FORWARD, BACKWARD = ("x", "weight"), ("x", "weight", "d_out")  # what each pass takes
BLOCKS = 2  # that a kernel may compute with at once, as the page says
OFTEN = 1_000  # turns of a loop outside of kernels
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
    """The program of the output as JAX lowers it for a TPU, and the same trace for a CPU."""
    return _lowered(subject, case, lambda norm, x, weight: norm(x, weight), FORWARD)


@eager
def backward_for_tpu(subject: Subject, case: Case) -> Reading:
    """The program of the gradients for the case's cotangent, lowered in the same way."""
    return _lowered(subject, case, lambda norm, x, weight, d_out: jax.vjp(norm, x, weight)[1](d_out), BACKWARD)


def _lowered(subject: Subject, case: Case, function: Callable[..., Any], names: Sequence[str]) -> Reading:
    """The program of a function of the norm and of arrays of the case, lowered for a TPU, where kernels are compiled,
    and the same trace for a CPU, where they are interpreted. So the kernels that a TPU would run give the numbers."""
    sizes = (case.values["epsilon"], case.values["block"])
    shapes = [jax.ShapeDtypeStruct(np.shape(case.values[name]), np.float32) for name in names]

    def norm(x: Any, weight: Any) -> Any:
        return subject.call("rms_norm", x, weight, *sizes)

    jax.clear_caches()  # of functions that were traced with interpreted kernels
    with _compiling():
        traced = jax.make_jaxpr(partial(function, norm))(*shapes)  # what the submission itself raises is raised here
        try:
            for_tpu = export.export(jax.jit(jax.extend.core.jaxpr_as_fun(traced)), platforms=["tpu"])(*shapes)
        except Exception as error:  # an operation that kernels for a TPU do not have fails in many ways
            why = " ".join(str(error).split())[:200]
            remedy = (
                "the last two sizes of a block must be multiples of 8 and 128, or equal those of the array"
                if "block shape" in why
                else f"use arithmetic by element, `jnp.sum` and `jnp.mean`: {why}"
            )
            raise BadOutputError(f"JAX cannot compile its kernel for a TPU; {remedy}") from None
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
    """What the program of the output consists of: whether it has a kernel that multiplies, the arithmetic outside of
    kernels, and blocks that are too large. And the output of the same trace on the CPU."""
    module, found = _run(arrays, case, FORWARD, ["output"])
    found["has_a_kernel"] = np.int32(any(map(_multiplies, stablehlo.operations(module))))
    return Reading({f"tpu.{name}": value for name, value in {**found, "numbers_outside": _outside(module)}.items()})


def read_backward(arrays: Mapping[str, Any], files: Path, case: Case) -> Reading:
    """The gradients, blocks that are too large, and the arithmetic outside of kernels that the sum of one row for each
    step does not need."""
    module, found = _run(arrays, case, BACKWARD, ["gradient.x", "gradient.weight"])
    T, D = np.shape(case.values["x"])
    steps = math.ceil(T / int(case.values["block"]))
    # Room for the sum's body and for a change of type. All rows are seven times as many.
    outside = np.int64(max(0, _outside(module) - 2 * steps * D))
    return Reading({f"tpu.{name}": value for name, value in {**found, "numbers_outside": outside}.items()})


def _run(arrays: Mapping[str, Any], case: Case, names: Sequence[str], results: list[str]) -> tuple[Any, Arrays]:
    """The program for a TPU, and what the one for a CPU gives: the results, and the numbers of the largest array that
    its kernels compute with, as far as they are more than two blocks."""
    module, for_cpu = (np.asarray(arrays[name], np.uint8).tobytes() for name in ("tpu", "cpu"))
    witness.check(Program(module, [], []))
    inputs = [Input("case", name, np.shape(case.values[name]), "float32") for name in names]
    found = witness.Witness().run(Program(for_cpu, inputs, results), case, ["largest_operand"])
    largest = max(int(found.pop(f"program.largest_operand.{place}")) for place in ("in_loops", "outside"))
    most = BLOCKS * int(case.values["block"]) * np.shape(case.values["x"])[1]
    return stablehlo.parsed(module), {**found, "too_large": np.int64(largest if largest > most else 0)}


def _outside(module: Any) -> Any:
    """How many numbers the arithmetic outside of kernels takes: those of each operation. In a loop, they are taken
    often.

    A call of anything but a kernel is arithmetic: a library of linear algebra divides rows by their norms, too.
    """
    operations, functions = list(stablehlo.operations(module)), stablehlo.functions(module)
    looped = {inner for each in operations if each.name == LOOP for inner in stablehlo.inside(each)}
    for name in stablehlo.callers_first(functions):
        if any(stablehlo.callee(each) == name for each in looped):
            looped.update(stablehlo.inside(functions[name]))
    taken = 0
    for each in operations:
        calls = each.name == "stablehlo.custom_call"
        if not _is_kernel(each) if calls else computes_numbers(each, functions):
            numbers = max(map(stablehlo.numbers, each.operands))
            taken += numbers * (OFTEN if each in looped else 1)
    return np.int64(taken)


def _is_kernel(call: Any) -> bool:
    return call.name == "stablehlo.custom_call" and str(call.attributes["call_target_name"]).strip('"') == KERNEL


def _multiplies(call: Any) -> bool:
    """Whether an operation is a kernel for a TPU whose body multiplies numbers."""
    if not _is_kernel(call):
        return False
    config = json.loads(str(call.attributes["backend_config"])[1:-1].replace("\\22", '"'))
    return b"mulf" in base64.b64decode(config["custom_call_config"]["body"])


PROBES = {"passes": passes, "for_tpu": for_tpu, "backward_for_tpu": backward_for_tpu}
READERS = {"for_tpu": read, "backward_for_tpu": read_backward}
