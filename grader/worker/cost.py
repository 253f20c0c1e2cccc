"""The cost of an operation of a program: the scalar operations of one execution, from one table.

A number that is computed counts 1, whatever the operation, its dtype and the body of a reduction. So does a number that
is looked up at a computed place, because a table can hold any function, or written there, because sorting does the work
of masks. A number that is only moved counts 0, also through a branch: right loops pass all that they carry. A matrix
product counts a multiplication and an addition for each pair of numbers. An operation on 64 bits counts four times, as
the school method of halves takes: a number can hold several smaller ones. Linear algebra counts as in Golub and Van
Loan, "Matrix Computations", and a Fourier transform of n complex numbers as 5 n log2(n), the convention of FFTW's
benchmarks. A witness refuses every operation that is not in the table.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from grader.worker import stablehlo
from grader.worker.stablehlo import ir

Functions = Mapping[str, Any]  # of a module, by name: the body of a reduction may call one

MOVES = """
    all_gather all_to_all bitcast_convert broadcast broadcast_in_dim call case collective_broadcast
    collective_permute complex composite concatenate constant func get_tuple_element if imag iota
    optimization_barrier pad partition_id real replica_id reshape return reverse slice transpose tuple while
""".split()
BY_ELEMENT = """
    abs add and atan2 cbrt ceil clamp compare convert cosine count_leading_zeros divide exponential
    exponential_minus_one floor is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt
    power reduce_precision remainder rng_bit_generator round_nearest_afz round_nearest_even rsqrt select shift_left
    shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor
""".split()
ASSOCIATIVE = [f"stablehlo.{name}" for name in ("add", "multiply", "minimum", "maximum", "and", "or", "xor")]
COMPUTED_PLACES = ("dynamic_slice", "dynamic_update_slice", "gather")  # these move numbers, which count
# Real operations for each complex number: its two parts, or what the school formula takes.
COMPLEX = {"multiply": 6, "divide": 11}
COMPLEX_OTHERS = 2
WIDE = 4

# Custom calls that JAX makes for shardings and for linear algebra, by the shape (m, n) of one matrix.
LINEAR_ALGEBRA: Mapping[str, Callable[[int, int], float]] = {
    "geqrf": lambda m, n: 2 * m * n * min(m, n),
    "orgqr": lambda m, n: 2 * m * n * min(m, n),
    "getrf": lambda m, n: m * n * min(m, n),
    "potrf": lambda m, n: m * n * n / 3,
    "syevd": lambda m, n: 9 * m * n * n,
    "gesdd": lambda m, n: 21 * m * n * min(m, n),
}
TRIANGULAR_SOLVE = "trsm"  # of a triangular matrix and a second one, whose other side may be of any length
CUSTOM_CALLS = frozenset(
    ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"]
    + [f"lapack_s{name}_ffi" for name in (*LINEAR_ALGEBRA, TRIANGULAR_SOLVE)]
)


def cost(operation: Any, functions: Functions) -> int:
    """Returns the cost of one execution of an operation, without the bodies of loops, branches and functions. Raises
    KeyError if it is not in the table."""
    dialect, _, name = operation.name.partition(".")
    if dialect in ("sdy", "builtin"):
        return 0
    wide = any("64" in kind for kind in stablehlo.dtypes([*operation.operands, *operation.results]))
    return TABLE[name](operation, functions) * (WIDE if wide else 1)


def computes_numbers(operation: Any, functions: Functions) -> bool:
    """Returns whether an operation computes with numbers, rather than moves them, looks them up or writes them.

    Single integers are indices. The bits of a float as an integer count as numbers, because integer arithmetic can
    replace all arithmetic of floats.
    """
    name = operation.name.partition(".")[2]
    computed = _body(operation, 0, functions) if name == "scatter" else cost(operation, functions)
    if name in COMPUTED_PLACES or not (computed or name == "bitcast_convert"):
        return False
    values = [*operation.operands, *operation.results]
    if any(kind.startswith(("f", "bf", "complex")) for kind in stablehlo.dtypes(values)):
        return True
    return any(_elements(value) > 1 and kind != "i1" for value in values for kind in stablehlo.dtypes([value]))


def is_counted(operation: str) -> bool:
    """Returns whether an operation, by its name in portable bytecode, such as `vhlo.add_v1`, is in the table."""
    return re.sub(r"^vhlo\.(\w+)_v\d+$", r"\1", operation) in TABLE


def _nothing(operation: Any, functions: Functions) -> int:
    return 0


def _by_element(operation: Any, functions: Functions) -> int:
    name = operation.name.partition(".")[2]
    factor = COMPLEX.get(name, COMPLEX_OTHERS) if _is_complex(operation) else 1
    return factor * _elements(operation.results[-1])


def _product(operation: Any, functions: Functions) -> int:
    left = stablehlo.shape(operation.operands[0])
    axes = left[-1:]
    if operation.name == "stablehlo.dot_general":
        axes = tuple(left[axis] for axis in stablehlo.contracted_axes(operation))
    return _multiply_add(operation) * _elements(operation.results[0]) * math.prod(axes)


def _convolution(operation: Any, functions: Functions) -> int:
    kernel = stablehlo.shape(operation.operands[1])
    outputs = kernel[stablehlo.output_features_axis(operation)]
    return _multiply_add(operation) * _elements(operation.results[0]) * math.prod(kernel) // max(1, outputs)


def _reduce(operation: Any, functions: Functions) -> int:
    return _elements(operation.operands[0]) * _body(operation, 0, functions)


def _reduce_window(operation: Any, functions: Functions) -> int:
    before, after = (stablehlo.shape(value) for value in (operation.operands[0], operation.results[0]))
    total = math.prod(after) * _body(operation, 0, functions)
    padding = stablehlo.padding(operation)
    for axis, size in enumerate(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"])):
        # XLA makes a scan, with log2(n) operations a number, of a window over all numbers up to each or from each on.
        cumulative = 1 < size == before[axis] == after[axis] and sorted(padding[axis]) == [0, size - 1]
        total *= math.ceil(math.log2(size)) if cumulative and _is_plain(operation) else size
    return total


def _is_plain(reduction: Any) -> bool:
    """Returns whether a reduction of one array applies one operation, which is associative."""
    inside = [inner.operation.name for inner in reduction.regions[0].blocks[0].operations]
    return len(inside) == 2 and inside[0] in ASSOCIATIVE


def _select_and_scatter(operation: Any, functions: Functions) -> int:
    window = math.prod(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"]))
    each = window * _body(operation, 0, functions) + _body(operation, 1, functions)
    return _elements(operation.operands[1]) * each


def _scatter(operation: Any, functions: Functions) -> int:
    written = (len(operation.operands) - 1) // 2  # arrays, each with updates of its own, at the same places
    return _elements(operation.operands[-1]) * max(written, _body(operation, 0, functions))


def _dynamic_update_slice(operation: Any, functions: Functions) -> int:
    return _elements(operation.operands[1])


def _sort(operation: Any, functions: Functions) -> int:
    along = stablehlo.shape(operation.operands[0])[stablehlo.sorted_axis(operation)]
    comparisons = _elements(operation.operands[0]) * max(1, math.ceil(math.log2(max(2, along))))
    each = max(1, _body(operation, 0, functions))  # `a before b if a`, of booleans, computes nothing
    others = sum(map(_elements, operation.operands[1:]))  # which come along, so they are written at computed places
    return comparisons * each + others


def _map(operation: Any, functions: Functions) -> int:
    return _elements(operation.results[0]) * _body(operation, 0, functions)


def _fft(operation: Any, functions: Functions) -> int:
    sizes = math.prod(ir.DenseI64ArrayAttr(operation.attributes["fft_length"]))
    numbers = max(_elements(operation.operands[0]), _elements(operation.results[0]))
    return math.ceil(5 * numbers * math.log2(max(2, sizes)))


def _cholesky(operation: Any, functions: Functions) -> int:
    return _matrices(operation.results[0], LINEAR_ALGEBRA["potrf"])


def rows_in_order(operation: Any) -> int:
    """Returns the rows of the matrix that linear algebra goes through one after another, as in a triangular solve; 0
    for any other operation."""
    in_order = operation.name in ("stablehlo.triangular_solve", "stablehlo.cholesky") or routine(operation)
    return stablehlo.shape(operation.operands[0])[-1] if in_order else 0


def _triangular_solve(operation: Any, functions: Functions) -> int:
    return _elements(operation.results[0]) * rows_in_order(operation)


def routine(operation: Any) -> str:
    """Returns the LAPACK routine that an operation calls, without its letter for the type; empty for any other
    operation."""
    if operation.name != "stablehlo.custom_call":
        return ""
    found = re.fullmatch(r"lapack_s(\w+)_ffi", ir.StringAttr(operation.attributes["call_target_name"]).value)
    return found[1] if found else ""


def _custom_call(operation: Any, functions: Functions) -> int:
    target, called = ir.StringAttr(operation.attributes["call_target_name"]).value, routine(operation)
    if target not in CUSTOM_CALLS:
        raise KeyError(target)
    if called == TRIANGULAR_SOLVE:
        return _triangular_solve(operation, functions)
    return _matrices(operation.operands[0], LINEAR_ALGEBRA[called]) if called else 0


WITH_A_BODY: Mapping[str, Callable[[Any, Functions], int]] = {
    "stablehlo.reduce": _reduce, "stablehlo.all_reduce": _reduce, "stablehlo.reduce_scatter": _reduce,
    "stablehlo.reduce_window": _reduce_window, "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.scatter": _scatter, "stablehlo.sort": _sort, "stablehlo.map": _map,
}  # fmt: skip
TABLE: Mapping[str, Callable[[Any, Functions], int]] = {
    **dict.fromkeys(MOVES, _nothing),
    **dict.fromkeys([*BY_ELEMENT, "dynamic_slice", "gather"], _by_element),
    "dynamic_update_slice": _dynamic_update_slice,
    **{name.removeprefix("stablehlo."): function for name, function in WITH_A_BODY.items()},
    "dot": _product, "dot_general": _product, "convolution": _convolution, "fft": _fft, "cholesky": _cholesky,
    "triangular_solve": _triangular_solve, "custom_call": _custom_call,
}  # fmt: skip


def _body(operation: Any, number: int, functions: Functions) -> int:
    """Returns the cost of the body of a reduction, which works on single numbers."""
    total = 0
    for inner in stablehlo.inside_block(operation.regions[number].blocks[0]):
        total += cost(inner, functions)
        if callee := stablehlo.callee(inner):
            total += _body(functions[callee], 0, functions)
    return total


def _matrices(value: Any, one: Callable[[int, int], float]) -> int:
    *batch, m, n = stablehlo.shape(value)
    return math.prod(batch) * math.ceil(one(m, n))


def _multiply_add(operation: Any) -> int:
    return 8 if _is_complex(operation) else 2


def _elements(value: Any) -> int:
    return math.prod(stablehlo.shape(value))


def _is_complex(operation: Any) -> bool:
    return any(kind.startswith("complex") for kind in stablehlo.dtypes([*operation.operands, *operation.results]))
