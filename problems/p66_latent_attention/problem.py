"""Problem 66: multi-head latent attention, with a cache of short vectors."""

from collections.abc import Mapping
from typing import Any

from grader.checks import cache_in_words, causality, output, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

MLA = "LatentAttention"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations (T, D) for H heads, a latent vector of C numbers and a rotated key of R."""
    H, T = sizes["H"], sizes["T"]
    D = H * sizes["K"]
    return {
        "d_model": D,
        "num_heads": H,
        "d_latent": sizes["C"],
        "d_rope": sizes["R"],
        "rope_base": float(sizes["base"]),
        "x": rng.standard_normal((T, D)).astype("float32"),
    }


def masked(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Also a causal mask that hides about half of the earlier positions."""
    import numpy as np

    T = sizes["T"]
    mask = np.tril(rng.random((T, T)) < 0.5) | np.eye(T, dtype=bool)
    mask[-1, 0], mask[-1, 1] = True, False  # unlike in any mask of a window
    return {**activations(sizes, rng), "mask": mask}


# Products may be taken in another order, absorbed or not, and the sums of one position in another than those of all.
STEP = Tolerance(rtol=1e-4, atol=1e-4)
BYTES = Tolerance(rtol=0.1, atol=64, room=3)
# The values of all positions in every step take 2.9 times the work of the reference, and 1.7 times where hidden
# positions are skipped, because the heads of the long case are large: with half of their size, skipping would save
# almost enough.
WORK = Tolerance(rtol=0.3, atol=0.0, room=3)


def work(case: Case, difference: Difference) -> str:
    return f"all steps together execute {difference.got} scalar operations; {difference.expected} are allowed"


# R differs from all other sizes, and there is more than one pair: another pairing or exponent gives other numbers.
SIZES = {"T": (5, 7), "H": (3,), "K": (6,), "C": (5, 7), "R": (4, 8), "base": (8,)}
ENTRY = {"entry": MLA}

PROBLEM = Problem(
    title="Latent attention",
    minutes=145,
    builds_on=(3, 30, 37, 39),
    entries=(Entry(MLA, ("x",), construct=("d_model", "num_heads", "d_latent", "d_rope", "rope_base")),),
    cases={
        "cases": Cases(activations, SIZES, draws=2),
        "masked": Cases(masked, SIZES, draws=1),
        "ones": Cases(
            activations, {"T": (1,), "H": (1,), "K": (1,), "C": (1,), "R": (2,), "base": (8,)}, draws=1, covers=("one",)
        ),
        "long": Cases(activations, {"T": (96,), "H": (6,), "K": (12,), "C": (7,), "R": (4,), "base": (100,)}, draws=1),
    },
    row_by_row={"decoding": ["x"]},
    without={"coprime": "d_model is a multiple of num_heads"},
    checks=(
        parameters(MLA, points=1),
        *output_and_gradient(MLA, wrt="parameters", points=(2, 1), tolerance=STEP),
        output(MLA, points=1, name="one position and one head", cases="ones"),
        causality(MLA, argument="x", points=1),
        Check("another mask", 1, "with_mask", ENTRY, "output", "masked"),
        Check("steps with a cache", 1, "decoding", ENTRY, leaves="output", tolerance=STEP),
        Check("a step with one head", 1, "decoding", ENTRY, "output", "ones", tolerance=STEP),
        Check(
            "one compilation", 1, "decoding", ENTRY, leaves="output", tolerance=STEP, traced=True,
            advice="The step cannot be compiled once for all positions. Keep the position in the cache, as an array.",
        ),
        Check(
            "size of the cache", 2, "decoding", ENTRY, "program.cache_bytes", "long", "at_most", BYTES,
            values_tolerance=STEP, in_words=cache_in_words,
            advice="The cache must hold the latent vector of each "
            "position and one rotated key for all heads, and no keys or values of heads.",
        ),
        Check(
            "absorbed products", 2, "decoding", ENTRY, "program.work", "long", "at_most", WORK, in_words=work,
            values_tolerance=STEP,
            advice="Every step computes keys or values of all positions from the latent vectors. Multiply the query by "
            "`k_up` instead, and the mixed latent vector by `v_up`.",
        ),
    ),
)  # fmt: skip
