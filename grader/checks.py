"""The checks every problem can use. Each is data; the probes they name are in `grader/probes.py`."""

from collections.abc import Sequence
from typing import Any, Literal

from grader.problem import EXACT, FLOAT32, Check, Tolerance

YES = {0: "no", 1: "yes"}

# What the numbers of `grader.placement.place` mean.
PLACES = {-1: "on one device", 0: "not split", 1: "split over data", 2: "split over model", 3: "split over both"}

# What is the same for all programs (sums, a copy of the batch) is a part of the reference's memory, so a correct one may need
# half as much again; one that holds what it should take in parts needs five times as much or more.
MEMORY = Tolerance(rtol=1.0, atol=0.0, room=3)

Wrt = Literal["parameters"] | Sequence[str]


def output(entry: str, *, points: int, name: str = "output", **more: Any) -> Check:
    """What `entry` returns equals what the reference returns, by name of leaf, shape, dtype and value.

    A module's parameters are filled by name first. Options beyond Check's own fields: `fill="MiniGPT"` fills every such
    module that a function entry constructs, and compares the key it was constructed with.
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
    """Two checks from one compiled program: the output, and the gradient of `sum(cotangent * output)`.

    The cotangent is fixed and random. `wrt` is `"parameters"` (of a module) or the names of float arguments.
    """
    options = {"entry": entry, "wrt": wrt if isinstance(wrt, str) else list(wrt)}
    return (
        Check(names[0], points[0], "values", options, "output", cases, tolerance=tolerance),
        Check(names[1], points[1], "values", options, "gradient", cases, tolerance=tolerance),
    )


def parameters(entry: str, *, points: int, initial: Sequence[str] = (), **more: Any) -> Check:
    """The tree of a module's parameters: names, shapes, dtypes.

    The initial values of the leaves named in `initial` are compared too; name only those that no random draw decides.
    """
    options = {"entry": entry, "initial": list(initial)}
    return Check("parameters", points, "parameters", options, **more)


def causality(entry: str, *, argument: str, points: int) -> Check:
    """Output `t` depends on the inputs up to `t` and on none after: not a bit of it changes when a later input does.

    `argument` is a float argument whose first axis is time, as is the output's.
    """
    return Check(
        "causality", points, "dependence", {"entry": entry, "argument": argument}, tolerance=EXACT, words=YES,
        advice="Row t of `depends` says which positions influence output t: all up to and including t, none after.",
    )  # fmt: skip


def jit(entry: str, *, points: int, **more: Any) -> Check:
    """`entry` can be traced, gives the same compiled, and compiles once for inputs of the same shapes."""
    return Check("jit", points, "compiled", {"entry": entry}, **more)


def exact(name: str, points: int, probe: str, leaves: str, **more: Any) -> Check:
    """Leaves of a problem's own probe that must equal the reference's bit for bit: counts, flags, copied numbers."""
    return Check(name, points, probe, leaves=leaves, **{"tolerance": EXACT, **more})


def memory(what: str, *, points: int, advice: str) -> Check:
    """The temporary memory of the compiled program is at most a multiple of the reference's, on the cases `large`.

    For the problem's own probe `memory`, with the leaf `temporary_bytes`.
    """
    return Check(
        f"memory of one {what}", points, "memory", leaves="temporary_bytes", cases="large", compare="at_most",
        tolerance=MEMORY, advice=advice,
    )  # fmt: skip
