"""The notes of a program to XLA beside StableHLO: on how to compile it, and on texts for the compiled program.

A submission may write anything there: that a call is not to be inlined, or a text with lines of its own, among which a
reader of the compiled program would look for collectives.
"""

from collections.abc import Iterator
from typing import Any

from grader.worker import stablehlo
from grader.worker.stablehlo import ir

_OF_PROGRAMS = frozenset(["mhlo.sharding", "mhlo.num_partitions", "mhlo.num_replicas"])
_OF_CALLS = frozenset(["mhlo.backend_config", "backend_config"])  # the options of LAPACK
_OF_ARGUMENTS = frozenset(
    ["sdy.sharding", "mhlo.sharding", "tf.aliasing_output", "jax.buffer_donor", "jax.result_info"]
)


def has_notes(module: Any) -> bool:
    """Returns whether a parsed module has any note to XLA that `strip` removes."""
    return any(_notes(each) for each in _all(module)) or any(
        {one.name for one in given} - _OF_ARGUMENTS
        for each in _all(module)
        for _, some in _of_arguments(each)
        for given in some
    )


def strip(module: Any) -> None:
    """Removes the notes to XLA from a module: all attributes but the placements of arrays, donated arguments and the
    options of calls. Call it inside the module's MLIR context."""
    for operation in _all(module):
        for name in _notes(operation):
            del operation.attributes[name]
        for name, some in _of_arguments(operation):
            kept = [{one.name: one.attr for one in given if one.name in _OF_ARGUMENTS} for given in some]
            operation.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in kept])


def _all(module: Any) -> Iterator[Any]:
    yield module.operation
    yield from list(stablehlo.operations(module))


def _notes(operation: Any) -> list[str]:
    kept = _OF_CALLS if operation.name == "stablehlo.custom_call" else frozenset()
    names = {str(name) for name in operation.attributes} - _OF_PROGRAMS - kept
    return [name for name in names if name.startswith("mhlo.") or name in _OF_CALLS]


def _of_arguments(function: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yields the attributes of the arguments and of the results of a function, by name."""
    for name in {"arg_attrs", "res_attrs"} & {str(each) for each in function.attributes}:
        given: Any = ir.ArrayAttr(function.attributes[name])
        yield name, [ir.DictAttr(one) for one in given]
