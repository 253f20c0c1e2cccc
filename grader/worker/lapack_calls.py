"""Checks that the arrays of a program's LAPACK calls have the shapes that LAPACK assumes.

The functions behind the calls read and write as many numbers as one of the shapes says, and ignore the others. So a
program could declare a large matrix as a small one, which costs less, or touch memory that is not its own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from grader.worker import cost, stablehlo
from grader.worker.stablehlo import ir

Shape = tuple[int, ...]
Shapes = tuple[list[Shape], list[Shape]]  # of the arrays that a routine takes and returns, for one matrix

# Each takes the shapes of one call without the axes of a batch, and its options as letters. Returns the shapes that
# they must be.
_Rule = Callable[[list[Shape], list[Shape], Mapping[str, str]], Shapes]


def misfit(module: Any) -> str:
    """Returns the name of a routine that a parsed module calls with arrays of other shapes; empty if there is none."""
    calls = ((each, cost.routine(each)) for each in stablehlo.operations(module))
    return next((name for call, name in calls if name and not _fits(call, name)), "")


def _fits(call: Any, name: str) -> bool:
    taken, returned = ([stablehlo.shape(value) for value in values] for values in (call.operands, call.results))
    batch = taken[0][:-2] if taken else ()
    if any(shape[: len(batch)] != batch for shape in taken + returned):
        return False
    one = [shape[len(batch) :] for shape in taken], [shape[len(batch) :] for shape in returned]
    try:
        return one == _RULES[name](*one, _options(call))
    except (IndexError, KeyError, ValueError):
        return False


def _options(call: Any) -> dict[str, str]:
    """Returns the LAPACK options of a call by name. JAX stores each letter as its character code.

    Raises ValueError if the call has no backend config, or two.
    """
    (place,) = {"backend_config", "mhlo.backend_config"} & {str(name) for name in call.attributes}
    given: Any = ir.DictAttr(call.attributes[place])
    return {each.name: chr(ir.IntegerAttr(each.attr).value) for each in given}


def _factors(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    ((m, n),) = taken
    return [(m, n)], [(m, n), (min(m, n),)]


def _from_reflectors(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    (m, n), (count,) = taken
    return ([(m, n), (count,)], [(m, n)]) if count <= n <= m else ([], [])


def _with_pivots(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    ((m, n),) = taken
    return [(m, n)], [(m, n), (min(m, n),), ()]


def _root(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    n = taken[0][1]
    return [(n, n)], [(n, n), ()]


def _eigen(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    n = taken[0][1]
    return [(n, n)], [(n, n), (n,), ()]


def _singular(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    ((m, n),) = taken
    few = min(m, n)
    # JAX has whole ones made if it wants none, too.
    left, right = {"S": (few, few), "A": (m, n), "N": (m, n)}[options["mode"]]
    return [(m, n)], [(m, n), (few,), (m, left), (right, n), ()]


def _solve(taken: list[Shape], returned: list[Shape], options: Mapping[str, str]) -> Shapes:
    m, n = taken[1]
    size = {"L": m, "R": n}[options["side"]]
    return [(size, size), (m, n)], [(m, n)]


_RULES: Mapping[str, _Rule] = {
    "geqrf": _factors,
    "orgqr": _from_reflectors,
    "getrf": _with_pivots,
    "potrf": _root,
    "syevd": _eigen,
    "gesdd": _singular,
    cost.TRIANGULAR_SOLVE: _solve,
}
