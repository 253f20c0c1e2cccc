"""Problem 62: a sparse autoencoder, which takes activations apart into features."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.checks import output, output_and_gradient
from grader.problem import Cases, Entry, Problem

SAE, UNIT, PROJECT, IDLE, REVIVE = "autoencode", "unit_rows", "project_gradient", "idle_tokens", "revive"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations around a mean that is not 0, and random weights."""
    N, D, F = sizes["N"], sizes["D"], sizes["F"]
    bias = rng.standard_normal(D) + 1
    return {
        "x": (rng.standard_normal((N, D)) + bias).astype("float32"),
        "encoder": (rng.standard_normal((D, F)) / D**0.5).astype("float32"),
        "decoder": rng.standard_normal((F, D)).astype("float32"),
        "bias": (0.8 * bias).astype("float32"),
        "k": sizes["k"],
    }


def ties(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Whole numbers, and features with the same encoder, so that scores are equal. In two rows, no score is positive.

    In another one all are positive, and the last that is kept is equal to one that is not.
    """
    import numpy as np

    values = activations(sizes, rng)
    D, F = sizes["D"], sizes["F"]
    distinct = rng.integers(-2, 3, (D, 3))
    distinct[0] = rng.permutation([1, 2, 3])
    values["encoder"] = distinct[:, np.arange(F) % 3].astype("float32")
    values["bias"] = rng.integers(-1, 2, D).astype("float32")
    x = rng.integers(-2, 3, (sizes["N"], D))
    x[:3] = values["bias"]  # all scores are 0
    x[1:3, 0] += [-1, 1]  # all are negative, or positive
    values["x"] = x.astype("float32")
    return values


def matrix(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows shorter and longer than 1, one of them tiny, and one of zeros."""
    import numpy as np

    decoder = rng.standard_normal((sizes["F"], sizes["D"]))
    lengths = rng.permutation([0, 1e-6, 0.4, 1.7, *rng.uniform(0.1, 2, sizes["F"] - 4)])
    decoder *= lengths[:, None] / np.linalg.norm(decoder, axis=1, keepdims=True)
    return {"decoder": decoder.astype("float32")}


def slopes(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A decoder with rows of length 1, and a gradient for it."""
    import numpy as np

    decoder, gradient = rng.standard_normal((2, sizes["F"], sizes["D"]))
    decoder /= np.linalg.norm(decoder, axis=1, keepdims=True)
    return {"decoder": decoder.astype("float32"), "gradient": gradient.astype("float32")}


def counts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Codes of a batch, in which some features are never above 0, and how long each has been idle before."""
    N, F = sizes["N"], sizes["F"]
    codes = rng.uniform(0.01, 2, (N, F)) * (rng.random((N, F)) < 0.3)
    codes[:, rng.permutation(F)[:3]] = 0
    return {"idle": rng.integers(0, 20, F).astype("int32"), "codes": codes.astype("float32")}


def dead(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Weights, of which some features are dead, one of them just now, and the errors of a batch."""
    import numpy as np

    D, F, N = sizes["D"], sizes["F"], sizes["N"]
    patience = int(rng.integers(30, 70))
    idle = rng.integers(0, patience, F)
    chosen = rng.permutation(F)[: sizes["dead"]]
    idle[chosen] = patience + rng.integers(1, 40, len(chosen))
    idle[chosen[:1]] = patience
    errors = rng.standard_normal((N, D)) * rng.permutation(N)[:, None] + rng.standard_normal((N, D))
    errors[-1] = 18  # longer than the next, which has the largest number
    errors[-2] = 30 * np.eye(D)[0]
    return {
        "encoder": rng.standard_normal((D, F)).astype("float32"),
        "decoder": rng.standard_normal((F, D)).astype("float32"),
        "idle": idle.astype("int32"),
        "errors": errors.astype("float32"),
        "patience": patience,
    }


RECONSTRUCTION, GRADIENT = output_and_gradient(
    SAE, wrt=["encoder", "decoder", "bias"], points=(3, 2), names=("reconstruction and codes", "gradient")
)

PROBLEM = Problem(
    title="A sparse autoencoder",
    minutes=105,
    builds_on=(59,),
    entries=(
        Entry(SAE, ("x", "encoder", "decoder", "bias", "k"), returns=("out", "codes")),
        Entry(UNIT, ("decoder",)),
        Entry(PROJECT, ("decoder", "gradient")),
        Entry(IDLE, ("idle", "codes")),
        Entry(REVIVE, ("encoder", "decoder", "idle", "errors", "patience"), returns=("encoder", "decoder", "idle")),
    ),
    cases={
        "cases": Cases(activations, {"N": (5, 7), "D": (4,), "F": (11, 9), "k": (3, 2)}, draws=2, covers=("coprime",)),
        "one token": Cases(activations, {"N": (1,), "D": (5,), "F": (7,), "k": (1,)}, draws=1, covers=("one",)),
        "ties": Cases(ties, {"N": (6, 7), "D": (4,), "F": (8,), "k": (4,)}, draws=1),
        "matrix": Cases(matrix, {"F": (5, 6), "D": (3, 4)}, draws=1),
        "slopes": Cases(slopes, {"F": (5, 6), "D": (3, 4)}, draws=1),
        "counts": Cases(counts, {"N": (4, 5), "F": (8, 9)}, draws=1),
        "few dead": Cases(dead, {"D": (4, 5), "F": (8, 9), "N": (6,), "dead": (3,)}, draws=1),
        "none dead": Cases(dead, {"D": (3,), "F": (7,), "N": (5,), "dead": (0,)}, draws=1),
        "many dead": Cases(dead, {"D": (4,), "F": (9,), "N": (3,), "dead": (6, 5)}, draws=1),
    },
    checks=(
        RECONSTRUCTION,
        replace(
            GRADIENT,
            advice="If the report says that finite differences were used, a number can also be wrong because the k "
            "largest scores change nearby. Write `autoencode` with `jnp`, so that `jax.grad` can differentiate it.",
        ),
        output(SAE, points=2, name="ties and rows without a positive score", cases="ties"),
        output(SAE, points=1, name="one token with one feature", cases="one token"),
        output(UNIT, points=1, name="rows of length 1", cases="matrix"),
        output(PROJECT, points=2, name="gradient across the rows", cases="slopes"),
        output(IDLE, points=1, name="idle tokens", cases="counts"),
        output(REVIVE, points=2, name="dead features revived", cases="few dead"),
        output(REVIVE, points=1, name="no dead features", cases="none dead"),
        output(REVIVE, points=1, name="more dead features than errors", cases="many dead"),
    ),
)
