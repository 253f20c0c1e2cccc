"""What a learner can do about an error of JAX, in one clause: a table of error types and messages.

JAX's messages are right, but they explain tracing in general, and often name neither the cause nor the remedy in this code.
"""

import re
import traceback
from collections.abc import Iterator

import jax

_NO_NUMBER = "inside jit or grad an array has no number yet"
# The first row that fits is taken, so special cases come first. Groups of the pattern fill the placeholders.
_TABLE: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        jax.errors.ConcretizationTypeError,
        r"with the `(\w+)` function",
        f"{_NO_NUMBER}, so keep it an array: leave out `{{0}}(...)`",
    ),
    (
        jax.errors.ConcretizationTypeError,
        r"in the (\w+)\(\) method|The (\w+)\(\) method was called",
        f"{_NO_NUMBER}, so keep it an array: leave out `.{{0}}()`",
    ),
    (
        jax.errors.ConcretizationTypeError,
        r"jnp\.nonzero|jnp\.unique",
        "the shape of the result would depend on numbers that are not known yet; use `jnp.where` with three arguments, or pass "
        "`size=`",
    ),
    (
        jax.errors.TracerBoolConversionError,
        "",
        "inside jit or grad a condition on an array has no value yet; use `jnp.where` or `jax.lax.cond` in place of `if`, "
        "`while`, `and`, `or` and `not`",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        "",
        f"{_NO_NUMBER}; index a JAX array in place of a list, and use `jax.lax.fori_loop` in place of `range`",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "",
        "the shape of `x[mask]` would depend on numbers that are not known yet; keep the shape with `jnp.where(mask, x, 0)`",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "",
        "NumPy needs the numbers of an array, which are not known yet inside jit or grad; use `jnp` in place of `np`",
    ),
    (
        IndexError,
        r"Slice entries must be static|must have static start/stop/step",
        "the bounds of a slice must be Python numbers; use `jax.lax.dynamic_slice` for a part of fixed length, or a mask",
    ),
    (
        TypeError,
        r"Shapes must be 1D sequences of concrete values|arose in the jnp\.arange argument",
        "a shape must not depend on numbers that are not known yet; take sizes from `x.shape`",
    ),
    (
        TypeError,
        r"transpose permutation isn't a permutation",
        "in JAX, `transpose` takes the order of all axes; use `x.swapaxes(-2, -1)` for PyTorch's `x.transpose(-2, -1)`",
    ),
    (
        TypeError,
        r"dot_general requires contracting dimensions to have the same shape, got \((\d+),\) and \((\d+),\)",
        "the last axis of the left array has {0} numbers, and the axis of the right one that it is multiplied with has {1}; swap "
        "two axes with `x.swapaxes(-2, -1)`, because `x.transpose(-2, -1)` changes nothing in JAX",
    ),
    (TypeError, r"unexpected keyword argument 'dim'", "what PyTorch calls `dim` is `axis` in JAX"),
    (TypeError, r"unexpected keyword argument 'keepdim'", "what PyTorch calls `keepdim` is `keepdims` in JAX"),
    (
        RuntimeError,
        r"Array has been deleted|buffer has been deleted or donated",
        "the array was donated to a jitted function, which may write over it; use what that function returned, or do not "
        "donate it",
    ),
    (AttributeError, r"Tracer has no attribute '?(\w+)", "a JAX array has no `{0}`"),
)  # fmt: skip


def remedy(error: BaseException) -> str:
    """A clause that says what to do about an error of JAX; empty if the table has none."""
    for cause in _chain(error):
        try:
            text = str(cause)
        except BaseException:  # a learner's own exception
            return ""
        for kind, pattern, clause in _TABLE:
            if isinstance(cause, kind) and (found := re.search(pattern, text)):
                return clause.format(*(group for group in found.groups() if group))
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from: NumPy hides JAX's error behind its own.

    An error that Python code raised while it handled another is an error of its own: both went through the same frame.
    """
    while error:
        yield error
        inner = error.__cause__ or error.__context__
        error = inner if inner and not _frames(error) & _frames(inner) else None


def _frames(error: BaseException) -> set[int]:
    return {id(frame) for frame, _ in traceback.walk_tb(error.__traceback__)}
