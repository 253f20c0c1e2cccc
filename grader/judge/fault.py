"""The guilty part: what goes into and comes out of every named part of a module, and which one is first wrong.

The first half runs in workers and records; the second, in the judge, compares. Neither knows what the parts do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grader.flat import Leaf, compare
from grader.problem import Check, Tolerance

if TYPE_CHECKING:
    from flax import nnx

    from grader.session import Outcome

# What a part passes on has gone through few operations; a wrong part is off by far more than this.
AGREE = Tolerance(rtol=1e-4, atol=1e-4)
ROOT = "(whole)"


def check(entry: str) -> Check:
    """The question, as a check that is worth nothing."""
    return Check("parts", 0, "parts", {"entry": entry})


@dataclass
class Recorder:
    """Numbers the calls of each part; `seen` gets what `watch` makes of each value by name, in the order of the calls' ends."""

    paths: dict[int, str]
    watch: Callable[[str, Any], Any]

    def __post_init__(self) -> None:
        self.calls: dict[str, int] = {}

    def call(self, original: Callable[..., Any], part: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a part's own call, and shows `watch` its array arguments and its result."""
        path = self.paths.get(id(part))
        if path is None:
            return original(part, *args, **kwargs)
        number = self.calls[path] = self.calls.get(path, -1) + 1
        name = f"{path}.call{number}"
        args = tuple(self.watch(f"{name}.in{i}", x) if hasattr(x, "dtype") else x for i, x in enumerate(args))
        out = original(part, *args, **kwargs)
        return self.watch(f"{name}.out", out) if hasattr(out, "dtype") else out


@contextlib.contextmanager
def watching(module: nnx.Module, watch: Callable[[str, Any], Any]) -> Iterator[None]:
    """While it lasts, every call of a named part of `module` is shown to `watch`, which may replace values."""
    from flax import nnx

    nodes = [(path, node) for path, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)]
    nodes = [(path, node) for path, node in nodes if callable(node)]
    recorder = Recorder({id(node): ".".join(map(str, path)) or ROOT for path, node in nodes}, watch)
    originals = {type(node): type(node).__call__ for _, node in nodes}

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda part, *args, **kwargs: recorder.call(original, part, args, kwargs)

    for cls, original in originals.items():
        cls.__call__ = wrapped(original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for cls, original in originals.items():
            cls.__call__ = original  # type: ignore[method-assign]


@dataclass(frozen=True)
class Call:
    """One call of a part, as both sides saw it: which of its values agree, by name."""

    path: str
    agrees: dict[str, bool]

    def right(self, kind: str) -> bool:
        """Whether all values of a kind (`in`, `out`) agree."""
        return all(ok for name, ok in self.agrees.items() if name.startswith(kind))


def guilty(expected: Outcome, got: Outcome) -> str:
    """A sentence on the first part that is wrong although what it was given is right; empty if there is none."""
    if expected.failure or got.failure:
        return ""
    forward, backward = (_calls(expected.leaves, got.leaves, side) for side in ("values.", "slopes."))
    for call in forward:  # inner parts end first, so the innermost wrong part is found first
        if call.right("in") and not call.right("out"):
            return _sentence(call.path, forward)
    for call in _inner_first_backward(backward):
        if call.right("out") and not call.right("in"):
            where = "the whole" if call.path == ROOT else f"`{call.path}`"
            return (
                f"All outputs are right. Going backwards, {where} is the first part that is given the right gradient and passes "
                "on a wrong one."
            )
    return ""


def _sentence(path: str, calls: Sequence[Call]) -> str:
    inside = [call for call in calls if call.path != path and (path == ROOT or call.path.startswith(path + "."))]
    right = list(dict.fromkeys(call.path for call in inside if call.right("in") and call.right("out")))
    misled = [call.path for call in inside if not call.right("in")]
    what = "The model as a whole" if path == ROOT else f"`{path}`"
    text = f"{what} gets the right input and gives the wrong output"
    if right:
        names = [f"`{name}`" for name in right[-4:]]
        text += f"; {', '.join(names)} inside {'is' if len(right) == 1 else 'are'} right"
    if misled:
        text += (
            f", and `{misled[0]}` already gets a wrong input"
            if right
            else f"; `{misled[0]}` inside already gets a wrong input"
        )
    return text + "."


def _inner_first_backward(calls: Sequence[Call]) -> list[Call]:
    """In the order in which a backward pass would meet them, an inner part before the one around it."""
    backward = calls[::-1]
    return sorted(backward, key=lambda call: -call.path.count(".") if call.path != ROOT else 1)


def _calls(expected: Sequence[Leaf], got: Sequence[Leaf], side: str) -> list[Call]:
    """The calls that both sides made, in the reference's order."""
    theirs = {leaf.path: leaf for leaf in got}
    found: dict[str, dict[str, bool]] = {}
    for leaf in expected:
        if not leaf.path.startswith(side) or leaf.path not in theirs:
            continue
        name, value = leaf.path.removeprefix(side).rsplit(".", 1)
        agrees = compare([leaf], [theirs[leaf.path]], AGREE) is None
        agreed = found.setdefault(name, {})
        agreed[value] = agrees
        found[name] = found.pop(name)  # a call ends with its output: that is its place
    complete = {name: agreed for name, agreed in found.items() if "out" in agreed and len(agreed) > 1}
    return [Call(name.rsplit(".call", 1)[0], agreed) for name, agreed in complete.items()]
