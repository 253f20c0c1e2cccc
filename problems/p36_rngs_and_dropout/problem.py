"""Problem 36: random keys and dropout."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import Cases, Check, Entry, Problem, Tolerance

DROPOUT = "Dropout"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """So many numbers (T, D), none of them near 0, that the fraction that is kept is well known."""
    x = rng.uniform(0.5, 1.5, (sizes["T"], sizes["D"])) * rng.choice([-1, 1], (sizes["T"], sizes["D"]))
    return {"x": x.astype("float32"), "rate": float(rng.choice([0.2, 0.3, 0.9])), "seeds": _seeds(rng)}


def layers(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row for a stack of layers, wide enough to measure the spread of their kernels."""
    x = rng.standard_normal(sizes["D"]).astype("float32")
    return {"x": x, "num_layers": sizes["L"], "d_model": sizes["D"], "seeds": _seeds(rng)}


def model_inputs(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A batch (B, D) for a model with dropout in both modes."""
    return {"x": rng.standard_normal((sizes["B"], sizes["D"])).astype("float32"), "seeds": _seeds(rng)}


def _seeds(rng: Any) -> Any:
    return rng.integers(0, 2**31, 2).astype("uint32")


def shown(values: Mapping[str, Any]) -> Mapping[str, Any]:
    T, D = values["x"].shape
    return {"rate": values["rate"], "x": f"{T} rows of {D} numbers between 0.5 and 1.5, with random signs"}


# Two fractions of 100,000 numbers differ by 0.002 (standard deviation). Dropping with another rate moves it by 0.1 or
# more.
FRACTION = Tolerance(rtol=0.0, atol=0.025, room=2.5)
# The root mean squares of two draws of 12,000 numbers differ by 1%. A wrong standard deviation is off by 1.7 or more.
SPREAD = Tolerance(rtol=0.1, atol=0.0, room=2.5)

PROBLEM = Problem(
    title="Random keys and dropout",
    minutes=55,
    forbids=(
        "flax.nnx.Dropout", "flax.nnx.MultiHeadAttention", "flax.nnx.dot_product_attention", "flax.nnx.nn",
        "flax.linen",
    ),
    entries=(
        Entry(DROPOUT, ("x",), construct=("rate",)),
        Entry("predict", ("model", "x")),
        Entry("make_layers", ("num_layers", "d_model", "rngs")),
    ),
    cases={
        "cases": Cases(activations, {"T": (251,), "D": (401,)}, draws=2, show=shown, covers=("coprime",)),
        "model": Cases(model_inputs, {"B": (1, 5), "D": (16,)}, draws=1, covers=("one",)),
        "layers": Cases(layers, {"L": (12, 13, 14), "D": (32, 36)}, draws=1, covers=("layers",)),
    },
    checks=(
        Check("dropped and scaled", 2, "dropping", leaves="values"),
        Check("fraction kept", 1, "dropping", leaves="fraction", tolerance=FRACTION),
        Check("gradient", 1, "dropping", leaves="gradient"),
        exact(
            "new mask at each call", 2, "dropping", "masks", words=YES,
            advice="Draw a new key at each call: calling a stream, as in `self.rngs()`, does so.",
        ),
        exact(
            "keys from the stream dropout", 1, "dropping", "stream", words=YES,
            advice="The mask depends on the key of the stream `dropout` of `rngs`, and on nothing else.",
        ),
        exact(
            "a stream of its own for each layer", 1, "dropping", "layers", words=YES,
            advice="Two layers that were built from the same `rngs` have different masks, and calling one does not "
            "change those of the other. Keep a fork: `rngs.dropout.fork()`.",
        ),
        Check("eval and train", 1, "dropping", leaves="modes"),
        Check("prediction", 1, "predicting", leaves="output", cases="model", calls=("predict",)),
        exact(
            "mode of each part after a prediction", 1, "predicting", "dropped_after", cases="model", calls=("predict",),
            words=YES,
        ),
        Check("stacked layers", 1, "stacking", leaves="stack", cases="layers", calls=("make_layers",)),
        exact("different layers", 1, "stacking", "same", cases="layers", calls=("make_layers",), words=YES),
        Check("spread of the "
            "kernels", 1, "stacking", leaves="spread", cases="layers", calls=("make_layers",), tolerance=SPREAD),
    ),
)  # fmt: skip
