"""A run of a program on a mesh: its outputs, the bytes that the devices send each other, and the work and the memory of
one device.

Collectives count as the program writes them, and not as XLA compiles them (`collectives.py`). XLA keeps an array that
the program gathers twice, and on a CPU it sends bfloat16 as float32. So the figures are the same on every machine.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader.problem import Case
from grader.worker import counting, stablehlo
from grader.worker.bill import KINDS
from grader.worker.counting import UncountableError
from grader.worker.measures import MEASURES, Compiled, Execution
from grader.worker.witness import RefusedProgramError

# Without a note that they are of devices, the groups of these are of replicas, each with all devices of the mesh.
_OF_REPLICAS, _GLOBAL = ("all_reduce", "all_gather", "reduce_scatter"), "use_global_device_ids"


@dataclass(frozen=True, eq=False)
class MeshRun:
    """What was found in one run of a program on a mesh.

    Attributes:
        outputs: The outputs by name.
        sent: The bytes that all devices send together, by collective. A collective sends as few as it can: in a group
            of n devices, a gather sends each part n - 1 times, and so does a sum that is scattered; a sum that everyone
            gets sends twice as much. How far a byte goes does not count.
        work: The scalar operations of one device. What is outside of `shard_map` counts as if each device did all.
        peak: The most bytes that exist at one time on one device, without the inputs, by the rules of `memory.py`.
    """

    outputs: Mapping[str, Any]
    sent: Counter[str]
    work: int
    peak: int


def run_on_mesh(compiled: Compiled, arrays: Mapping[str, Any]) -> MeshRun:
    """Runs a compiled program on its inputs by name. Raises RefusedProgramError if XLA adds a collective to those that
    the program writes, or if they cannot be counted; KeyError if an input is missing."""
    program = compiled.program
    execution = Execution(compiled, [arrays[item.name] for item in program.inputs], Case(arrays))
    try:
        added = next((each.kind for each in execution.collectives if not each.written), "")
        sent = _sent(execution)
        figures = json.loads(bytes(MEASURES["bill"](execution)))["figures"]
        outputs = dict(zip(program.outputs, execution.outputs, strict=True))
    except (UncountableError, KeyError, ValueError) as error:
        raise RefusedProgramError(f"its work cannot be counted: {error}") from error
    if added:
        raise RefusedProgramError(
            f"XLA adds a collective to it, {added}, because an array is not where it is needed; write all collectives "
            "inside of `jax.shard_map`"
        )
    return MeshRun(outputs, sent, sum(figures[kind] for kind in KINDS), figures["peak_bytes"])


def _sent(execution: Execution) -> Counter[str]:
    """Returns the bytes that all devices send, by collective. Raises UncountableError."""
    found = Counter[str]()
    for run in execution.runs:
        name = run.operation.name.removeprefix("stablehlo.")
        if name in counting.COLLECTIVES:
            shape = "×".join(map(str, stablehlo.shape(run.operation.operands[0]))) or "1"
            (dtype,) = set(stablehlo.dtypes(run.operation.operands))
            found[f"{name.replace('_', ' ')} {shape} {dtype}"] += run.times * _sent_once(run.operation, name, execution)
    return found


def _sent_once(operation: Any, name: str, execution: Execution) -> int:
    """Returns the bytes that all devices send in one execution of a collective."""
    size = sum(map(stablehlo.tensor_bytes, operation.operands))
    if name == "collective_permute":
        return size * sum(source != target for source, target in stablehlo.device_groups(operation))
    groups = stablehlo.device_groups(operation)
    if not groups or (name in _OF_REPLICAS and _GLOBAL not in operation.attributes):
        groups = [list(range(len(execution.compiled.devices)))]
    others = sum(len(group) - 1 for group in groups)
    match name:
        case "all_gather":
            return size * sum(len(group) * (len(group) - 1) for group in groups)
        case "all_reduce":
            return 2 * size * others
        case _:  # of what a device gives, all but its own part leaves it, or a copy reaches each other device
            return size * others
