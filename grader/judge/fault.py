"""Fault localization: finds the first submodule whose recorded inputs agree with the reference's but whose output does
not.

`grader.worker.recorder` records the values, in both workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from grader.judge.counterexample import Part, PartState
from grader.judge.worker_session import Outcome
from grader.problem import Check, Tolerance
from grader.wire.compare import WHOLE, Leaf, compare
from grader.wire.relation import relation

# A submodule applies few operations: the error of a correct one is far below this, that of a wrong one far above.
AGREE = Tolerance(rtol=1e-4, atol=1e-4)
_MOST_NAMED = 8  # right submodules in a sentence


def check(entry: str) -> Check:
    """Returns a check without points that asks a worker for the recorded values."""
    return Check("submodules", 0, "submodules", {"entry": entry})


@dataclass(frozen=True)
class Call:
    """One call of a submodule. `agrees` holds, for each value by name, whether it agrees with the reference's."""

    name: str
    agrees: dict[str, bool]

    @property
    def path(self) -> str:
        """The path of the submodule."""
        return self.name.rsplit(".call", 1)[0]

    def right(self, kind: str) -> bool:
        """Returns whether all values of a kind (`in`, `out`) agree."""
        return all(agrees for name, agrees in self.agrees.items() if name.startswith(kind))


@dataclass(frozen=True)
class Finding:
    """Sentences on the first faulty submodule, empty if there is none.

    `related` means that one of them describes a relation. `tree` holds all submodules that the reference calls.
    """

    text: str = ""
    related: bool = False
    tree: tuple[Part, ...] = ()


def first_faulty(
    expected: Outcome,
    got: Outcome,
    used: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    again: Callable[[str], tuple[Leaf, Leaf, Mapping[str, int]] | None] = lambda path: None,
) -> Finding:
    """Finds the first submodule whose inputs are right and whose output is wrong.

    `used` are the parameters on which the output depends, if known. Calls of a submodule that a transformation such as
    `nnx.jit` copied are not recorded, but its parameters are in `used`. `again` returns a leaf of a case with other
    sizes.
    """
    if expected.failure or got.failure:
        return Finding()
    uncalled = [] if used is None else _never_called(expected.leaves, got.leaves, used)
    forward = _calls(expected.leaves, got.leaves, "values.")
    for call in forward:  # an inner call ends before the call around it, so the innermost faulty submodule comes first
        if call.right("in") and not call.right("out"):
            path = f"values.{call.name}.out"
            want, have = (_leaf(path, outcome.leaves) for outcome in (expected, got))
            related = relation(want, have, AGREE, sizes, partial(again, path)) if call.path != WHOLE else ""
            text = _output_text(call.path, forward, uncalled, related)
            return Finding(text, bool(related), _tree(expected.leaves, forward, uncalled, call.path))
    if uncalled:
        return Finding(" ".join(_never_called_sentences(uncalled)), tree=_tree(expected.leaves, forward, uncalled))
    for call in _inner_first_backward(_calls(expected.leaves, got.leaves, "slopes.")):
        if call.path != WHOLE and call.right("out") and not call.right("in"):
            return Finding(_gradient_text(call.path), tree=_tree(expected.leaves, forward, [], call.path))
    return Finding()


def _output_text(path: str, forward: Sequence[Call], uncalled: Sequence[str], related: str) -> str:
    """Describes what is wrong with the output of the submodule `path`. `related` is a sentence on its numbers, or
    empty."""
    inside = [other for other in uncalled if path == WHOLE or other.startswith(path + ".")]
    first, *rest = [*_sentences(path, forward), *_never_called_sentences(inside)] or [""]
    return " ".join(sentence for sentence in (first, related, *rest) if sentence)


def _gradient_text(path: str) -> str:
    """Returns a sentence that the submodule `path` returns a wrong gradient."""
    return (
        f"All outputs are right. In the backward pass, `{path}` is the first submodule that receives a correct "
        "gradient and returns a wrong one."
    )


def _tree(
    expected: Sequence[Leaf], forward: Sequence[Call], uncalled: Sequence[str], faulty: str = ""
) -> tuple[Part, ...]:
    """Returns the submodules that the reference calls, the module itself first, each with its state."""
    paths = [
        leaf.path.removeprefix("calls.") for leaf in expected if leaf.path.startswith("calls.") and leaf.values.any()
    ]

    def state(path: str) -> PartState:
        if path == faulty:
            return "faulty"
        if any(path == outer or path.startswith(outer + ".") for outer in uncalled):
            return "never called"
        calls = [call for call in forward if call.path == path]
        if not calls:
            return "not recorded"
        if all(call.right("in") and call.right("out") for call in calls):
            return "right"
        return "wrong" if all(call.right("in") for call in calls) else "wrong input"

    return tuple(Part(path, state(path)) for path in sorted(paths, key=lambda path: (path != WHOLE, path)))


def _sentences(path: str, calls: Sequence[Call]) -> list[str]:
    inside = [call for call in calls if call.path != path and (path == WHOLE or call.path.startswith(path + "."))]
    right = list(dict.fromkeys(call.path for call in inside if call.right("in") and call.right("out")))
    wrong_input = [call.path for call in inside if not call.right("in")]
    if path == WHOLE and not right and not wrong_input:
        return []  # it would only say that the output is wrong
    name = "The model as a whole" if path == WHOLE else f"`{path}`"
    sentences = [f"{name} receives the right input but returns the wrong output."]
    if right:
        *others, last = [f"`{submodule}`" for submodule in right[-_MOST_NAMED:]]
        which = f"{', '.join(others)} and {last} are right" if others else f"{last} is right"
        more = ", and so are earlier ones" if len(right) > _MOST_NAMED else ""
        sentences.append(f"Inside it, {which}{more}.")
    if wrong_input:
        sentences.append(f"`{wrong_input[0]}` already receives a wrong input.")
    return sentences


def _never_called(expected: Sequence[Leaf], got: Sequence[Leaf], used: Sequence[str]) -> list[str]:
    """Returns the outermost submodules that only the reference calls, and whose parameters have no effect on the
    output."""
    counts = [
        {leaf.path.removeprefix("calls."): bool(leaf.values.any()) for leaf in side if leaf.path.startswith("calls.")}
        for side in (expected, got)
    ]
    uncalled = [
        path
        for path, called in counts[0].items()
        if called and counts[1].get(path) is False and not any(name.startswith(path + ".") for name in used)
    ]
    return [path for path in uncalled if not any(path.startswith(outer + ".") for outer in uncalled)]


def _never_called_sentences(paths: Sequence[str]) -> list[str]:
    return [f"`{path}` is never called." for path in paths[:3]]


def _leaf(path: str, leaves: Sequence[Leaf]) -> Leaf:
    return next(leaf for leaf in leaves if leaf.path == path)


def _inner_first_backward(calls: Sequence[Call]) -> list[Call]:
    """Returns the calls in the order of a backward pass, each inner submodule before the one around it."""
    backward = calls[::-1]
    return sorted(backward, key=lambda call: -call.path.count(".") if call.path != WHOLE else 1)


def _calls(expected: Sequence[Leaf], got: Sequence[Leaf], side: str) -> list[Call]:
    """Returns the calls that both programs made, in the reference's order."""
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
    return [Call(name, agrees) for name, agrees in complete.items()]
