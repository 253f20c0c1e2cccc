"""The probe of problem 18: the loss alone, and the loss with its gradients, in one program. Runs in workers."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from grader.authoring import MEASURES as COMMON
from grader.authoring import Arrays, Execution, Reading, Subject, given, named, stablehlo
from grader.problem import Case


def losses(subject: Subject, case: Case) -> Reading:
    """The loss, computed without a gradient and with one, and its gradients by argument."""
    pad_id, chunk = case.values["pad_id"], case.values["chunk"]

    def program(at: dict[str, Any], token_ids: Any) -> Arrays:
        def loss(at: dict[str, Any]) -> Any:
            return subject.call("chunked_loss", at["x"], at["embedding"], token_ids, pad_id, chunk)

        both, slopes = jax.value_and_grad(loss)(at)
        return named(loss(at), "alone") | named(both, "output") | named(slopes, "gradient")

    at = {key: given(case, key) for key in ("x", "embedding")}
    return subject.run(program, case, at, given(case, "token_ids"))


# Operations that compute nothing. A loop begins with zeros for what it saves for the backward pass.
MOVES = {
    "broadcast_in_dim",
    "constant",
    "reshape",
    "transpose",
    "slice",
    "pad",
    "concatenate",
    "gather",
    "optimization_barrier",
}


def arrays(execution: Execution) -> Arrays:
    """The sizes of the largest array, and of the largest that is computed outside of all loops: at least one chunk's
    logits."""
    case, module = execution.case, execution.compiled.parsed
    least = int(case.values["chunk"]) * len(case.values["embedding"])
    found = [math.prod(stablehlo.shape(value)) for value in _computed(stablehlo.functions(module), "main")]
    return {"largest": COMMON["largest_array"](execution), "outside_loops": np.int64(max([least, *found]))}


def _computed(functions: Any, name: str) -> Iterator[Any]:
    """The results of the operations of a function, and of those that it calls, that are not in a loop."""
    for view in functions[name].regions[0].blocks[0].operations:
        operation = view.operation
        if called := stablehlo.callee(operation):
            yield from _computed(functions, called)
        elif operation.name != "stablehlo.while" and operation.name.removeprefix("stablehlo.") not in MOVES:
            yield from operation.results


PROBES = {"losses": losses}
MEASURES = {"arrays": arrays}
