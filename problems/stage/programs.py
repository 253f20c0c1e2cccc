"""Sizes of the programs that JAX compiles from functions."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """A float32 array that has no numbers yet."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def compiled(function: Callable[..., Any], *inputs: Any) -> Any:
    """The function, compiled for arrays of these shapes."""
    return jax.jit(function).lower(*inputs).compile()


def temporary_bytes(function: Callable[..., Any], *inputs: Any) -> int:
    """The memory that the compiled function needs on each device, besides its inputs and outputs."""
    return int(compiled(function, *inputs).memory_analysis().temp_size_in_bytes)


def seconds(call: Callable[[], Any], repeats: int = 25) -> float:
    """The shortest time of a few calls, without the first."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = perf_counter()
        jax.block_until_ready(call())
        times.append(perf_counter() - start)
    return min(times)


def operations(function: Callable[..., Any], *inputs: Any) -> int:
    """The operations in the program that JAX hands to the compiler. The body of a loop counts once."""
    return jax.jit(function).lower(*inputs).as_text().count(" = ")


def kernels(function: Callable[..., Any], *inputs: Any) -> list[tuple[tuple[int, ...], list[str]]]:
    """The Pallas kernels that a function calls: the grid of each, and the shapes of the blocks that a step sees."""
    found = []
    for equation in _equations(jax.make_jaxpr(function)(*inputs).jaxpr):
        if equation.primitive.name == "pallas_call":
            mapping = equation.params["grid_mapping"]
            shapes = [
                "×".join(str(getattr(size, "block_size", size)) for size in each.block_shape)
                for each in mapping.block_mappings
            ]
            found.append((tuple(mapping.grid), shapes))
    return found


def _equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a traced program and of the programs in it, those of kernels left out."""
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive.name != "pallas_call":
            for value in equation.params.values():
                for each in value if isinstance(value, tuple | list) else (value,):
                    inner = getattr(each, "jaxpr", each)
                    if hasattr(inner, "eqns"):
                        yield from _equations(inner)


KINDS = {
    "products of matrices": ("dot_general",),
    "sums": ("reduce_sum",),
    "exponentials": ("exp", "exp2"),
    "logarithms": ("log", "log1p"),
    "roots": ("sqrt", "rsqrt"),
}


def dtypes(function: Callable[..., Any], *inputs: Any) -> dict[str, dict[str, int]]:
    """How many operations of each kind a traced function has, by the type of what they compute with."""
    found: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    for equation in _equations(jax.make_jaxpr(function)(*inputs).jaxpr):
        for kind, names in KINDS.items():
            if equation.primitive.name in names:
                of = str(equation.invars[0].aval.dtype)
                found[kind][of] = found[kind].get(of, 0) + 1
    return found
