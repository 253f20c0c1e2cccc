"""Statistics of compiled programs: temporary memory, size, equations, and bytes gathered between devices."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "f64": 8}


def temporary_bytes(program: Callable[..., Any], *args: Any) -> int:
    """The memory that XLA plans for intermediate results of `program(*args)`, without its arguments and results."""
    analysis: Any = jax.jit(program).lower(*args).compile().memory_analysis()
    return int(analysis.temp_size_in_bytes)


def size(program: Callable[..., Any], *args: Any) -> int:
    """The number of lines of the lowered program `program(*args)`. The body of a loop counts once."""
    return len(jax.jit(program).lower(*args).as_text().splitlines())


def equations(program: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """Every equation of the traced program, including those inside loops and calls. Each occurs once, however often it runs."""

    def walk(jaxpr: Any) -> Iterator[Any]:
        for equation in jaxpr.eqns:
            yield equation
            for inner in jaxprs_in_params(equation.params):
                yield from walk(inner)

    yield from walk(jax.make_jaxpr(program)(*args).jaxpr)


def gathered_bytes(program: str) -> int:
    """The bytes that the all-gathers of a compiled program produce on each device. `program` is its text."""
    total = 0
    for dtype, shape in re.findall(r"= (?:\()?(\w+)\[([\d,]*)\][^=]* all-gather(?:-start)?\(", program):
        total += _BYTES.get(dtype, 4) * math.prod(int(n) for n in shape.split(",") if n)
    return total
