"""Fault localization: finds the first submodule whose recorded inputs agree with the reference's and whose output does not.

`grader.worker.recorder` records the values, in both workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.judge.session import Outcome
from grader.problem import Check, Tolerance
from grader.wire.compare import WHOLE, Leaf, compare

# A submodule applies few operations: the error of a correct one is far below this, that of a wrong one far above.
AGREE = Tolerance(rtol=1e-4, atol=1e-4)


def check(entry: str) -> Check:
    """A check without points that asks a worker for the recorded values."""
    return Check("submodules", 0, "submodules", {"entry": entry})


@dataclass(frozen=True)
class Call:
    """One call of a submodule. `agrees` says, for each value by name, whether it agrees with the reference's."""

    path: str
    agrees: dict[str, bool]

    def right(self, kind: str) -> bool:
        """Whether all values of a kind (`in`, `out`) agree."""
        return all(agrees for name, agrees in self.agrees.items() if name.startswith(kind))


def first_faulty(expected: Outcome, got: Outcome) -> str:
    """A sentence about the first submodule whose inputs are right and whose output is wrong; empty if there is none."""
    if expected.failure or got.failure:
        return ""
    forward, backward = (_calls(expected.leaves, got.leaves, side) for side in ("values.", "slopes."))
    for call in forward:  # an inner call ends before the call around it, so the innermost faulty submodule comes first
        if call.right("in") and not call.right("out"):
            return _sentence(call.path, forward)
    for call in _inner_first_backward(backward):
        if call.right("out") and not call.right("in"):
            name = "the model as a whole" if call.path == WHOLE else f"`{call.path}`"
            return (
                f"All outputs are right. In the backward pass, {name} is the first submodule that receives a correct gradient "
                "and returns a wrong one."
            )
    return ""


def _sentence(path: str, calls: Sequence[Call]) -> str:
    inside = [call for call in calls if call.path != path and (path == WHOLE or call.path.startswith(path + "."))]
    right = list(dict.fromkeys(call.path for call in inside if call.right("in") and call.right("out")))
    wrong_input = [call.path for call in inside if not call.right("in")]
    name = "The model as a whole" if path == WHOLE else f"`{path}`"
    text = f"{name} receives the right input but returns the wrong output."
    if right:
        *others, last = [f"`{submodule}`" for submodule in right[-4:]]
        text += f" Inside it, {', '.join(others)} and {last} are right." if others else f" Inside it, {last} is right."
    if wrong_input:
        text += f" `{wrong_input[0]}` already receives a wrong input."
    return text


def _inner_first_backward(calls: Sequence[Call]) -> list[Call]:
    """The calls in the order of a backward pass, each inner submodule before the one around it."""
    backward = calls[::-1]
    return sorted(backward, key=lambda call: -call.path.count(".") if call.path != WHOLE else 1)


def _calls(expected: Sequence[Leaf], got: Sequence[Leaf], side: str) -> list[Call]:
    """The calls that both programs made, in the reference's order."""
    got_by_path = {leaf.path: leaf for leaf in got}
    calls: dict[str, dict[str, bool]] = {}
    for leaf in expected:
        if not leaf.path.startswith(side) or leaf.path not in got_by_path:
            continue
        name, value = leaf.path.removeprefix(side).rsplit(".", 1)
        agrees = calls.pop(name, {})
        agrees[value] = compare([leaf], [got_by_path[leaf.path]], AGREE) is None
        calls[name] = agrees  # moved to the end: a call ends with its output
    complete = {name: agrees for name, agrees in calls.items() if "out" in agrees and len(agrees) > 1}
    return [Call(name.rsplit(".call", 1)[0], agrees) for name, agrees in complete.items()]
