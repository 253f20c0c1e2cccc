"""Traces a submission's code into a program, without any number of a case."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from unittest.mock import patch

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.interpreters.partial_eval import dce_jaxpr

from grader.problem import Case
from grader.wire.program import Input, Program, Source
from grader.worker import stablehlo
from grader.worker.pytrees import FILLS, BadOutputError, to_leaves
from grader.worker.remedies import remedy


class UntraceableError(Exception):
    """The code needs the concrete value of an array. The message tells the learner so."""


@dataclass(frozen=True, eq=False)
class Given:
    """An array that a probe hands to a program without knowing its numbers.

    Attributes:
        source: Where its numbers come from, as in Input.
        name: Its name there.
        shape: Its shape.
        dtype: Its dtype.
        value: The numbers of an array that is sent along; None for any other.
        sharding: Its sharding; None for one device.
    """

    source: Source
    name: str
    shape: tuple[int, ...]
    dtype: Any
    value: Any = None
    sharding: Any = None

    @property
    def ndim(self) -> int:
        """Returns the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Returns the number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def spec(self) -> Any:
        """Returns the array as tracing sees it: shape, dtype and sharding."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=self.sharding)  # type: ignore[no-untyped-call]

    def numbers(self, case: Case) -> Any:
        """Returns the array's numbers in `case`. Raises UntraceableError if they exist only where programs run."""
        if self.source == "sent":
            return self.value
        if self.source == "case":
            return case.values[self.name]
        if self.source == "made":
            raise UntraceableError("it takes an array that is made only where programs run")
        return FILLS[self.source](self.name, self.shape, self.dtype, case.seed)


def given(case: Case, key: str) -> Given:
    """Returns the array `key` of `case`, whether or not its numbers are known here."""
    array: Any = case.values[key]
    return Given("case", key, tuple(array.shape), array.dtype)


def is_array(value: Any) -> bool:
    """Returns whether a value of a case is an array, known or not."""
    return isinstance(value, np.ndarray | Given)


def made(name: str, *shape: int, dtype: Any = jnp.int32) -> Given:
    """Returns the array that the function `name` of INPUTS makes from the case, where the program runs."""
    return Given("made", name, shape, dtype)


def sent(name: str, array: Any) -> Given:
    """Returns an array that this process computed as input of a program. It is no more trustworthy than this
    process."""
    return Given("sent", name, tuple(np.shape(array)), jnp.result_type(array), array)


def numbers(tree: Any, case: Case) -> Any:
    """Returns the tree with the numbers that its arrays have in a case."""
    return jax.tree.map(lambda leaf: leaf.numbers(case) if isinstance(leaf, Given) else leaf, tree)


def trace(program: Callable[..., dict[str, Any]], *args: Any) -> Program:
    """Traces `program(*args)` to a program in portable StableHLO, without names and source locations.

    `args` are trees of `Given`. Programs that differ only in names are equal. The program donates the inputs that the
    code's own jitted functions donate. Raises UntraceableError, or what the code raises.
    """
    flat, tree = jax.tree.flatten(args)

    def main(*arrays: Any) -> list[Any]:
        with as_outside_jit(arrays, specs):
            outputs = program(*jax.tree.unflatten(tree, arrays))
        names[:] = outputs
        return [_raw(leaf) for leaf in outputs.values()]

    names: list[str] = []
    jitted = jax.jit(main)
    specs = [leaf.spec() if isinstance(leaf, Given) else leaf for leaf in flat]
    try:
        traced = jitted.trace(*specs)
    except Exception as error:
        if is_tracing_error(error):
            raise UntraceableError(untraceable(error)) from error
        raise
    if traced.jaxpr.effects:
        raise UntraceableError("it calls back into Python")
    try:
        donated = _donated(traced.jaxpr.jaxpr, names)
        # Another function would be traced again.
        donating = jax.jit(main, donate_argnums=donated) if donated else jitted
        with stablehlo.exporting():
            exported = export.export(donating, platforms=["cpu"])(*specs)
    except (ValueError, NotImplementedError) as error:
        raise UntraceableError(f"jax.export cannot export it ({str(error)[:120]})") from error
    kept = [flat[index] for index in exported.module_kept_var_idx]
    inputs = [Input(leaf.source, leaf.name, leaf.shape, str(jnp.dtype(leaf.dtype))) for leaf in kept]
    arrays = {leaf.name: leaf.value for leaf in kept if leaf.source == "sent"}
    module = exported.mlir_module_serialized
    return Program(module, inputs, names, _devices(exported.nr_devices, module), sent=to_leaves(arrays))


def alone(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., list[Any]], Any]:
    """Traces `function(*args)` to a program of its own. Returns the program, and the shapes of its result.

    `args` are trees of `Given` or of shapes. The program takes and returns flat lists of arrays. Calling it runs no
    code of the function, not even that of its trees. Raises UntraceableError, or what the code raises.
    """
    specs = jax.tree.map(lambda leaf: leaf.spec() if isinstance(leaf, Given) else leaf, args)
    try:
        with as_outside_jit():
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*specs)
    except Exception as error:
        if is_tracing_error(error):
            raise UntraceableError(untraceable(error)) from error
        raise
    return jax.extend.core.jaxpr_as_fun(closed), shapes


def _devices(known: int, module: bytes) -> int:
    """Returns the number of devices that a program runs on. JAX counts only those of arrays, and ignores a mesh that
    was set."""
    if known > 1 or b"mesh" not in module:
        return known
    sizes = [[size for _, size in axes] for axes in stablehlo.meshes(stablehlo.parsed(module)).values()]
    return max([known, *map(math.prod, sizes)])


@contextlib.contextmanager
def as_outside_jit(arrays: Sequence[Any] = (), specs: Sequence[Any] = ()) -> Iterator[None]:
    """Lets traced code within the context do what is possible only outside jit: set a mesh, and ask inputs for their
    sharding.

    Flax asks for the sharding of each count of a random stream. JAX's own refusal prints where the array came from,
    which takes longer than all else of the construction of a large model.
    """
    known = {
        id(array): spec.sharding for array, spec in zip(arrays, specs, strict=True) if getattr(spec, "sharding", None)
    }

    def sharding(self: Any) -> Any:
        if id(self) not in known:
            raise AttributeError("a traced array has no sharding; use jax.typeof(x)")
        return known[id(self)]

    with stablehlo.meshes_can_be_set(), patch.object(jax.core.Tracer, "sharding", property(sharding), create=True):
        yield


def _donated(jaxpr: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the inputs that jitted functions donate. A donation inside a trace has no effect, so the whole program
    donates them.

    Raises BadOutputError where code outside a trace would fail: if a donated array is an output, or if a deleted array
    is used again. `names` are those of the outputs.
    """
    donated, deleted = set[int](), set[int]()
    for equation in jaxpr.eqns:
        arguments = [id(variable) for variable in equation.invars]
        reused = _reused(equation)
        if deleted.intersection(arguments) or any(arguments.count(variable) > 1 for variable in reused):
            raise BadOutputError(
                "donated buffers are used again: a jitted function deletes the arrays that it donates, so JAX raises "
                "an error where they are used later; use the arrays that the function returns, or do not donate"
            ).with_traceback(_traceback(equation))
        given_up = equation.params.get("donated_invars", ())
        donated |= {variable for variable, given in zip(arguments, given_up, strict=False) if given}
        deleted |= reused
    for name, variable in zip(names, jaxpr.outvars, strict=True):
        if id(variable) in donated:
            raise BadOutputError(f"`{name}` is still the old array, which a jitted function deleted: it was donated")
    return tuple(number for number, variable in enumerate(jaxpr.invars) if id(variable) in donated)


def untraceable(error: Exception) -> str:
    """Returns the reason why code cannot be traced, and what to do about it."""
    clause = remedy(error)
    return f"jax.jit cannot trace it ({type(error).__name__})" + f"; {clause}" * bool(clause)


def _reused(equation: Any) -> set[int]:
    """Returns the donated arguments whose memory a jitted function uses for a result. JAX deletes only these: it keeps
    arguments that the function does not need, and arguments with the shape and dtype of no result."""
    given_up = equation.params.get("donated_invars", ())
    if not any(given_up):
        return set()
    inner = equation.params["jaxpr"].jaxpr
    _, needed = dce_jaxpr(inner, [True] * len(inner.outvars))
    results = Counter((variable.aval.shape, variable.aval.dtype) for variable in inner.outvars)
    reused = set()
    for variable, given, used in zip(equation.invars, given_up, needed, strict=True):
        kind = (variable.aval.shape, variable.aval.dtype)
        if given and used and results[kind]:
            results[kind] -= 1
            reused.add(id(variable))
    return reused


def _traceback(equation: Any) -> TracebackType | None:
    """Returns the place in the code that made an equation."""
    traceback = equation.source_info.traceback
    return traceback.as_python_traceback() if traceback else None


def is_tracing_error(error: BaseException | None) -> bool:
    """Returns whether code failed because its arrays were traced. NumPy hides JAX's error behind its own, and Python
    names the type."""
    while error:
        if isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError | jax.errors.UnexpectedTracerError):
            return True
        word = {TypeError: "Tracer", AttributeError: "on traced array"}.get(type(error))
        if word and word in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def trace_of(*values: Any) -> Any:
    """Returns the innermost trace that any of these values belongs to; None for concrete values."""
    tracers = [value for value in values if isinstance(value, jax.core.Tracer)]
    return tracers[0]._trace if tracers else None


def _raw(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
