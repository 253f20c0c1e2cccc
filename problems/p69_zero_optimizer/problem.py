"""Problem 69: an optimizer whose state is split over the devices (ZeRO, stage 1)."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, collectives, exact
from grader.problem import Cases, Check, Entry, Problem

STATE, STEP = "zero_state", "zero_step"


def stories(sizes: Mapping[str, int], rng: Any, max_norm: float = 0.05) -> dict[str, Any]:
    """Right-padded stories: devices have different numbers of targets, one has none. And the moments of 3 earlier
    steps."""
    V, B, T, D, F = (sizes[name] for name in ("V", "B", "T", "D", "F"))
    token_ids = rng.integers(0, V - 2, (B, T)).astype("int32")  # token V - 2 does not occur
    for row, real in enumerate(rng.integers(1, T + 1, B)):
        token_ids[row, real:] = V - 1
    token_ids[0] = rng.integers(0, V - 2, T)
    token_ids[B // 8 : B // 4, 1:] = V - 1  # the second device has no target
    N = -(-(V * D + D * F + F + F * V) // 8) * 8
    m, v = (0.01 * rng.standard_normal(N)).astype("float32"), rng.uniform(1e-5, 1e-4, N).astype("float32")
    unused = slice(F + (V - 2) * D, F + (V - 1) * D)  # its row of the table has no gradient: epsilon decides its step
    m[unused], v[unused] = 4e-9, 1e-18
    return {
        "token_ids": token_ids,
        "m": m,
        "v": v,
        "vocab_size": V,
        "d_model": D,
        "d_ff": F,
        "learning_rate": round(rng.uniform(0.03, 0.08), 4),
        "max_norm": max_norm,
    }


def gentle(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A gradient that is not clipped, for parameters whose number 8 divides."""
    return stories(sizes, rng, max_norm=1000.0)


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with the shapes of the parameters in place of the sizes of the model."""
    V, D, F = (values[name] for name in ("vocab_size", "d_model", "d_ff"))
    shapes = f"embed {V, D}, ff1 {D, F}, bias {(F,)}, head {F, V}"
    inputs = {name: values[name] for name in ("token_ids", "m", "v", "learning_rate", "max_norm")}
    return {"shapes of the parameters": shapes, **inputs}


PROBLEM = Problem(
    title="A split optimizer",
    minutes=125,
    builds_on=(9, 11, 22, 47),
    entries=(
        Entry(STATE, ("parameters", "mesh")),
        Entry(
            STEP,
            ("loss_sum", "parameters", "state", "token_ids", "mesh", "learning_rate", "max_norm"),
            returns=("parameters", "state", "loss", "norm"),
        ),
    ),
    cases={
        "cases": Cases(  # size 156
            stories, {"B": (16, 24), "T": (7,), "V": (11,), "D": (6,), "F": (5,)}, draws=1, show=shown
        ),
        "gentle": Cases(  # size 80
            gentle, {"B": (16,), "T": (5,), "V": (9,), "D": (7,), "F": (1,)}, draws=1, show=shown, covers=("one",)
        ),
        # How often each pair of tokens occurs is all that the loss depends on. Here, that takes about 20,000 bits. What
        # the collectives may produce, with 14 bits for each new parameter, leaves 12,000: 22 N, and 1,024 in sums that
        # do not count.
        "many": Cases(  # size 514
            stories, {"B": (400, 408), "T": (64,), "V": (101,), "D": (2,), "F": (3,)}, draws=1, show=shown
        ),
    },
    checks=(
        Check("new state", 1, "creating", leaves="state", calls=(STATE,)),
        Check("no padding where 8 divides the size", 1, "creating", leaves="state", cases="gentle", calls=(STATE,)),
        exact("state split over the devices", 1, "creating", "program.placed", words=PLACES, calls=(STATE,)),
        Check("loss and norm", 1, "training", leaves="reported"),
        Check("new parameters", 2, "training", leaves="parameters"),
        Check("new moments", 2, "training", leaves="state"),
        Check("no clipping below the limit", 1, "training", leaves="", cases="gentle"),
        exact("sharding after the step", 1, "training", "program.placed", words=PLACES),
        collectives(
            "collectives of the step", 3, "training", {},
            "The program needs one `psum_scatter` of the flat gradients and one `all_gather` of the new parameters, "
            "and nothing else. Sums of a few numbers do not count.", "many",
        ),
    ),
    without={
        "coprime": "eight divides the rows of the batch and the length of the moments",
        "vocabulary": "the step sees one flat vector, whatever leaves it is made of, and the loss is given",
    },
    devices=8,
    mesh=(8,),
    places_inputs=True,
    timeout=60.0,
)  # fmt: skip
