"""The checks that every problem can use. A check is data; the probes that it names are in `grader/worker/probes.py`.

In all of them, `entry` is the name of an entry of the problem, `probe` the name of a probe, `points` the worth of the
check, and `advice` the usual cause of a failure. `more` are further fields of Check by name. `what` names a part of the
work, as in "memory of one chunk".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from grader.problem import EXACT, FLOAT32, Case, Check, Difference, Tolerance

YES = {0: "no", 1: "yes"}
"""The words of a flag."""

PLACES = {-1: "on one device", 0: "not split", 1: "split over data", 2: "split over model", 3: "split over both"}
"""The words of the numbers that describe the placement of an array, for each of its axes."""

MEMORY = Tolerance(rtol=1.0, atol=0.0, room=3)
"""The tolerance of `memory`.

Part of the reference's memory is common to all programs (sums, a copy of the batch), so a correct program may need up
to half as much again. A program that holds everything at once, instead of part by part, needs at least five times as
much.
"""
ONE_COPY = Tolerance(rtol=1.5, atol=0.0, room=1.4)
"""The tolerance of `compiled_once`.

A correct step may be written with half as many operations again. A state that starts with a Python number has a weak
type in JAX, so its step is compiled a second time. Programs that hold every step have at least four times as many
operations.
"""

PARTS = Tolerance(rtol=1.0, atol=0.0, room=2)
"""The tolerance of `few_parts`.

A correct program may compute each part twice for its backward pass, and so execute half as many operations again. One
that takes few rows at a time, where parts have twelve rows or more, executes at least five times as many.
"""


class Words(Mapping[int, str]):
    """The words of a coded leaf: `meaning` returns the meaning of each number."""

    def __init__(self, meaning: Callable[[int], str]) -> None:
        self._meaning = meaning

    def __getitem__(self, number: int) -> str:
        if not isinstance(number, int):
            raise KeyError(number)
        return self._meaning(number)

    def __iter__(self) -> Iterator[int]:
        return iter(())  # nobody can count them

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True


Wrt = Literal["parameters"] | Sequence[str]
"""What a gradient is taken with respect to: a module's parameters, or the names of float arguments."""


def in_stage(name: str, *checks: Check) -> Iterator[Check]:
    """Yields these checks as one stage of a problem that can be passed in several, one after another. `name` says what
    a learner has written when it passes, as in "its gradients"."""
    for check in checks:
        yield replace(check, stage=name)


def output(entry: str, *, points: int, name: str = "output", **more: Any) -> Check:
    """Returns a check that `entry` returns what the reference returns: the same leaves, shapes, dtypes and values.

    A module's parameters are first filled by name. `name` is that of the check. One option goes beyond Check's own
    fields: `fill="MiniGPT"` fills every such module that a function entry constructs, and compares the keys that it was
    constructed with.
    """
    options = {"entry": entry, **({"fill": more.pop("fill")} if "fill" in more else {})}
    return Check(name, points, "values", options, leaves="output", **more)


def output_and_gradient(
    entry: str,
    *,
    wrt: Wrt,
    points: tuple[int, int],
    names: tuple[str, str] = ("output", "gradient"),
    cases: str = "cases",
    tolerance: Tolerance = FLOAT32,
) -> tuple[Check, Check]:
    """Returns two checks on one compiled program: its output, and the gradient of `sum(cotangent * output)`.

    The cotangent is random but fixed. `wrt` is `"parameters"` (of a module) or the names of float arguments. `points`
    and `names` are those of the two checks, and `cases` is the family that both run on.
    """
    options = {"entry": entry, "wrt": wrt if isinstance(wrt, str) else list(wrt)}
    return (
        Check(names[0], points[0], "values", options, "output", cases, tolerance=tolerance),
        Check(names[1], points[1], "values", options, "gradient", cases, tolerance=tolerance),
    )


def parameters(entry: str, *, points: int, initial: Sequence[str] = (), **more: Any) -> Check:
    """Returns a check of the tree of a module's parameters: names, shapes and dtypes.

    The leaves named in `initial` are also compared by initial value. Name only those that do not depend on random
    draws.
    """
    options = {"entry": entry, "initial": list(initial)}
    return Check("parameters", points, "parameters", options, **more)


def causality(entry: str, *, argument: str, points: int) -> Check:
    """Returns a check that output `t` depends on inputs up to `t` only: changing a later input changes no bit of it.

    `argument` is a float argument. Its first axis, and that of the output, is time. The problem needs a check `output`:
    an entry that computes something else here than there fails.
    """
    return Check(
        "causality",
        points,
        "dependence",
        {"entry": entry, "argument": argument},
        "depends",
        tolerance=EXACT,
        words=YES,
        agrees_with="output",
        advice="Row t of `depends` shows which positions influence output t. It should be all positions up to and "
        "including t, and none after.",
    )


def jit(entry: str, *, points: int, **more: Any) -> Check:
    """Returns a check that `entry` can be traced, and that one program returns the right outputs for two inputs of the
    same shapes."""
    return Check("jit", points, "compiled", {"entry": entry}, traced=True, **more)


def exact(name: str, points: int, probe: str, leaves: str, **more: Any) -> Check:
    """Returns a check that the leaves at or below `leaves` of a problem's own probe equal the reference's bit for bit:
    counts, flags, copied numbers. `name` is that of the check."""
    return Check(name, points, probe, leaves=leaves, **{"tolerance": EXACT, **more})


def _memory_in_words(_: Case, wrong: Difference) -> str:
    return f"the compiled program takes {wrong.got} bytes of temporary memory, expected {wrong.expected}"


def memory(
    what: str, *, points: int, probe: str, options: Mapping[str, Any] | None = None, advice: str, **more: Any
) -> Check:
    """Returns a check that the compiled program's temporary memory, in bytes, is at most a multiple of the reference's,
    on the cases `large`. `options` are those of the probe."""
    return Check(
        f"memory of one {what}", points, probe, options or {}, leaves="program.temporary_bytes", compare="at_most",
        tolerance=MEMORY, advice=advice, in_words=_memory_in_words, **{"cases": "large", **more},
    )  # fmt: skip


def _parts_in_words(_: Case, wrong: Difference) -> str:
    return f"one run executes {wrong.got} operations, expected {wrong.expected}"


def few_parts(what: str, *, points: int, probe: str, advice: str) -> Check:
    """Returns a check that a program takes no more and no smaller parts than it is asked to, on the cases `few`, which
    have few large parts.

    With `memory`, where parts are many and small, it shows that a program takes parts of the given size.
    """
    return Check(
        f"no more parts than {what}", points, probe, leaves="program.executed", cases="few", compare="at_most",
        tolerance=PARTS, advice=advice, in_words=_parts_in_words,
    )  # fmt: skip


def cache_in_words(_: Case, wrong: Difference) -> str:
    """Returns a sentence on a `wrong` size of the cache that the steps of decoding carry, in bytes."""
    return f"the cache takes {wrong.got} bytes, expected {wrong.expected}"


def compiled_once(points: int, probe: str, *, advice: str, **more: Any) -> Check:
    """Returns a check that the program of several steps holds the step once: jit traces it once if it is compiled once.

    The measure is the number of matrix products in the program.
    """
    return Check(
        "compiled once", points, probe, leaves="program.products", compare="at_most", tolerance=ONE_COPY, advice=advice,
        **more,
    )  # fmt: skip


_CALLED = {
    "all_reduce": "`psum` produces",
    "all_gather": "`all_gather` produces",
    "reduce_scatter": "`psum_scatter` produces",
}


def _exchanged_in_words(_: Case, wrong: Difference) -> str:
    """Describes a difference in the bytes that collectives exchange, by kind."""
    measure, _dot, kind = wrong.path.removeprefix("program.").partition(".")
    if measure != "exchanged":
        return (
            f"`{wrong.path}` is {wrong.got}, expected {wrong.expected}; a program is measured only if its values "
            f"are right"
        )
    if kind == "written":
        return (
            f"the collectives that your code calls produce {wrong.got} bytes on each device, expected "
            f"{wrong.expected}; call them yourself, inside `jax.shard_map`"
        )
    if kind == "in_loops":
        return (
            f"collectives that run more than once produce {wrong.got} bytes on each device, expected {wrong.expected}; "
            "call each once, outside of loops"
        )
    what = _CALLED.get(kind, "collectives of other kinds produce")
    return f"in the compiled program, {what} {wrong.got} bytes on each device, expected {wrong.expected}"


_WHERE = (
    " A collective that you did not write comes from `in_specs` or `out_specs` that differ from the placement on the "
    "page: then XLA moves the array."
)


def collectives(
    name: str, points: int, probe: str, options: Mapping[str, Any], advice: str, cases: str = "cases"
) -> Check:
    """Returns a check that the compiled program exchanges as many bytes between devices as the page says, and nothing
    else.

    A few scalars do not count. `name` is the name of the check, `options` are those of the probe, and `cases` is the
    family that it runs on.
    """
    return exact(
        name, points, probe, "program.exchanged", options=options, cases=cases, in_words=_exchanged_in_words,
        advice=advice + _WHERE,
    )  # fmt: skip
