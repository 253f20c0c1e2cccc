"""Flat vectors with named leaves, and the one function that compares two of them. NumPy only.

`grader.worker.pytrees` makes the leaves from JAX pytrees, inside workers.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from commandline.spelling import nearest
from grader.problem import INPUTS, OUTPUT, PROGRAM, UNCHECKED, Compare, Tolerance

Values = np.ndarray[Any, Any]
Index = tuple[int, ...]
_MOST_NAMES, _LONGEST_NAME = 64, 200  # names of leaves that are compared by spelling, which takes long
# The reference with a misconception and a learner's program with the same one differ only by rounding.
SAME = Tolerance(rtol=1e-4, atol=1e-4)
WHOLE = "(whole)"  # stands for a module itself among the paths of its submodules


@dataclass(frozen=True, eq=False)
class Leaf:
    """One named array of an output.

    `dtype` is the name that the worker saw. It differs from `values.dtype` only where NumPy has no such type: bfloat16
    is sent as float32, int4 as int8.
    """

    path: str
    dtype: str
    values: Values

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}" if self.shape else f"{self.dtype} scalar"


def on_page(path: str) -> str:
    """Returns the name of a leaf in a report, which is that of the page: `balance` for `output.balance`, `work` for
    `program.work`."""
    head, dot, part = path.removeprefix(PROGRAM).rpartition(OUTPUT)
    return head + part if dot and (not head or head.endswith(".")) else path.removeprefix(PROGRAM)


@dataclass(frozen=True)
class Mismatch:
    """The first difference between two flat vectors, as a report shows it.

    Attributes:
        kind: The kind of difference.
        path: The path of the leaf.
        expected: The expected value, shape or dtype as text.
        got: The submission's value, shape or dtype as text.
        index: The index of the first wrong value, if values differ.
        off_by: The absolute difference there; None if it is not finite, or has no meaning.
        wrong: The number of wrong values.
        total: The number of all values.
        hint: A clause on the present leaf that is probably meant, for a missing one.
        words: The problem's own sentence on the difference, if it has one.
    """

    kind: Literal["missing", "unexpected", "shape", "dtype", "value"]
    path: str
    expected: str
    got: str
    index: Index | None = None
    off_by: float | None = None
    wrong: int | None = None
    total: int | None = None
    hint: str = ""
    words: str = ""

    @property
    def name(self) -> str:
        """The name of the leaf in a report."""
        return on_page(self.path)

    @property
    def place(self) -> str:
        """The leaf and the index in it, as `tokens[2]`."""
        return f"{self.name}{list(self.index)}" if self.index else self.name

    def sentence(self) -> str:
        """Returns the difference in one line: the problem's own words, if it has some."""
        if self.words:
            return self.words
        match self.kind:
            case "missing":
                return f"`{self.name}` is missing (expected {self.expected}){self.hint}"
            case "unexpected":
                return f"`{self.name}` is unexpected (got {self.got}){self.hint}"
            case "shape":
                return f"`{self.name}` has shape {self.got}, expected {self.expected}{self.hint}"
            case "dtype":
                return f"`{self.name}` is {self.got}, expected {self.expected}"
            case "value":
                share = f"; {self.wrong} of {self.total} values differ" if (self.total or 0) > 1 else ""
                return f"`{self.place}` is {self.got}, expected {self.expected}{share}"


def values(leaves: Iterable[Leaf]) -> list[Leaf]:
    """Returns the leaves that are values of a program: neither measures of it nor UNCHECKED."""
    return [leaf for leaf in leaves if not leaf.path.startswith((PROGRAM, UNCHECKED))]


def to_be_equal(expected: Sequence[Leaf], got: Sequence[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """Returns the leaves of the reference's and of another program that must be equal before the other one is measured.

    These are the values, the places of inputs, and UNCHECKED outputs where the reference has none: an output is memory
    that no measure counts.
    """
    alike = () if any(leaf.path.startswith(UNCHECKED) for leaf in expected) else (UNCHECKED,)
    want, have = ([leaf for leaf in side if leaf.path.startswith((INPUTS, *alike))] for side in (expected, got))
    return [*values(expected), *want], [*values(got), *have]


def select(leaves: Iterable[Leaf], prefix: str) -> list[Leaf]:
    """Returns the leaves at or below `prefix`; an empty prefix selects all but UNCHECKED ones."""
    if not prefix:
        return [leaf for leaf in leaves if not leaf.path.startswith(UNCHECKED)]
    return [leaf for leaf in leaves if leaf.path == prefix or leaf.path.startswith(prefix + ".")]


def compare(
    expected: Sequence[Leaf], got: Sequence[Leaf], tolerance: Tolerance, how: Compare = "close"
) -> Mismatch | None:
    """Returns the first mismatch, leaves before values, or None. `got` is untrusted: whatever it holds, nothing is
    raised."""
    return next(mismatches(expected, got, tolerance, how), None)


def mismatches(
    expected: Sequence[Leaf], got: Sequence[Leaf], tolerance: Tolerance, how: Compare = "close"
) -> Iterator[Mismatch]:
    """Yields one mismatch for each leaf that differs, in the order of `compare`."""
    by_path = {leaf.path: leaf for leaf in got}
    expected_paths = {leaf.path for leaf in expected}
    missing = [leaf for leaf in expected if leaf.path not in by_path]
    unexpected = [leaf for leaf in got if leaf.path not in expected_paths]
    for leaf in missing:
        yield Mismatch("missing", leaf.path, str(leaf), "nothing", hint=_instead(leaf, missing, unexpected))
    for leaf in unexpected:
        yield Mismatch("unexpected", leaf.path, "nothing", str(leaf))
    for leaf in expected:
        if leaf.path in by_path and (mismatch := _compare_leaf(leaf, by_path[leaf.path], tolerance, how)):
            yield mismatch


def first_nan(expected: Sequence[Leaf], got: Sequence[Leaf]) -> Mismatch | None:
    """Returns the mismatch of the first NaN that has a number of the reference at its place; None if there is none."""
    by_path = {leaf.path: leaf for leaf in got}
    for leaf in expected:
        have = by_path.get(leaf.path)
        if have is None or have.shape != leaf.shape:
            continue
        wrong = np.isnan(_wide(have.values)) & ~np.isnan(_wide(leaf.values))
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
            shown, came = _apart(leaf.values[first], have.values[first])
            return Mismatch("value", leaf.path, shown, came, first, wrong=int(wrong.sum()), total=int(wrong.size))
    return None


def _instead(leaf: Leaf, missing: Sequence[Leaf], unexpected: Sequence[Leaf]) -> str:
    """Describes what the output has in place of a missing leaf: the unmatched leaf of the same shape with the nearest
    name."""
    parts = [other.path for other in unexpected if other.path.startswith(leaf.path + ".")]
    if parts and leaf.path.startswith(OUTPUT.removesuffix(".")):
        return "; got a list, tuple or dictionary instead of one array"
    if parts:
        return f"; you have `{on_page(parts[0])}` instead"
    # Each of the two names must be the nearest to the other. If there is only one of each, no name need be near.
    alike = [other.path for other in unexpected if other.shape == leaf.shape and len(other.path) <= _LONGEST_NAME]
    # The initial value of a parameter, `initial.x`, is missing with the parameter, `x`.
    others = [other for other in missing if not other.path.endswith(f".{leaf.path}")]
    rivals = [other.path for other in others if other.shape == leaf.shape][:_MOST_NAMES]
    if len(alike) == len(rivals) == 1:
        return f"; you have `{on_page(alike[0])}` instead"
    similar = nearest(leaf.path, alike[:_MOST_NAMES])
    if similar and nearest(similar[0], rivals) == [leaf.path]:
        return f"; you have `{on_page(similar[0])}` instead"
    return ""


def _compare_leaf(expected: Leaf, got: Leaf, tolerance: Tolerance, how: Compare) -> Mismatch | None:
    path = expected.path
    if expected.shape != got.shape:
        return Mismatch("shape", path, str(expected.shape), str(got.shape))
    if not _dtype_is_accepted(expected.dtype, got.dtype):
        return Mismatch("dtype", path, expected.dtype, got.dtype)
    if expected.values.dtype == got.values.dtype and expected.values.tobytes() == got.values.tobytes():
        return None  # as are most leaves, and far quicker to see
    wrong = errors(expected, got, tolerance, how) > 1
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    want, have = expected.values[first], got.values[first]
    shown, came = _apart(want, have)
    if abs(_wide(want)) <= tolerance.atol and came != "0":
        shown = "0"  # a sum that cancels to -2e-8 is 0 up to rounding: its digits say nothing
    off = float(abs(_wide(have) - _wide(want)))
    if how == "at_most":
        shown, off = _bound(want, tolerance), math.inf
    return Mismatch(
        "value", path, shown, came, first, off if math.isfinite(off) else None,
        wrong=int(wrong.sum()), total=int(wrong.size),
    )  # fmt: skip


def errors(expected: Leaf, got: Leaf, tolerance: Tolerance, how: Compare = "close") -> Values:
    """Returns the error of each value in units of the tolerance: above 1 is wrong, infinite for NaN.

    NaN matches only a NaN of the reference at the same place, and an infinity only itself. The absolute part of the
    tolerance grows with the leaf's root mean square, because the rounding error of a sum scales with its terms, even
    where they cancel.
    """
    want, have = _wide(expected.values), _wide(got.values)
    with np.errstate(all="ignore"):
        if how == "at_most":
            off = np.maximum(have - want, 0)
            allowed = tolerance.atol + tolerance.rtol * np.abs(want)
        else:
            finite = want[np.isfinite(want)]
            size = float(np.sqrt(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0
            off = np.abs(have - want)
            allowed = tolerance.atol * max(1.0, size) + tolerance.rtol * np.abs(want)
        units = np.where(off == 0, 0.0, off / allowed)
        units = np.where(np.isfinite(want) & np.isfinite(have), units, np.inf)
        same = (want == have) | (np.isnan(want) & np.isnan(have))
    result: Values = np.where(same, 0.0, units)
    return result


def error(expected: Sequence[Leaf], got: Sequence[Leaf], tolerance: Tolerance, how: Compare = "close") -> float:
    """Returns the largest error in units of the tolerance: up to 1 is correct. Infinite if paths, shapes or dtypes
    differ."""
    by_path = {leaf.path: leaf for leaf in got}
    if {leaf.path for leaf in expected} != set(by_path):
        return float("inf")
    worst = 0.0
    for leaf in expected:
        have = by_path[leaf.path]
        if leaf.shape != have.shape or not _dtype_is_accepted(leaf.dtype, have.dtype):
            return float("inf")
        if leaf.values.size:
            worst = max(worst, float(np.max(errors(leaf, have, tolerance, how))))
    return worst


def _wide(values: Values | np.generic) -> Values:
    array = np.asarray(values)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _dtype_is_accepted(expected: str, got: str) -> bool:
    """Returns whether `got` is the same dtype, or one that holds the same numbers: float64 for float32, other integers
    for integers."""
    accepted = {"float32": {"float64"}, "int32": {"int64", "uint32", "int16", "int8"}, "uint32": {"int32", "int64"}}
    return got == expected or got in accepted.get(expected, set())


def _apart(want: np.generic, have: np.generic) -> tuple[str, str]:
    """Returns two different values as text, with as many digits as it takes to see that they differ."""
    texts = (_show(want, 7), _show(have, 7))
    for digits in range(8, 18):
        if texts[0] != texts[1]:
            break
        texts = (_show(want, digits), _show(have, digits))
    return texts


def _show(value: np.generic, digits: int) -> str:
    return f"{value:.{digits}g}" if np.asarray(value).dtype.kind in "fc" else str(value)


def _bound(value: np.generic, tolerance: Tolerance) -> str:
    """Returns the largest value that passes an `at_most` comparison."""
    bound = float(value) + tolerance.atol + tolerance.rtol * abs(float(value))
    return f"at most {bound:.7g}" if np.asarray(value).dtype.kind == "f" else f"at most {math.floor(bound)}"
