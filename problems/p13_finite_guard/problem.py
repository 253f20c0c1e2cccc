"""Problem 13: a guard that skips non-finite updates, and a search for the first bad leaf."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.problem import EXACT, Case, Cases, Check, Difference, Entry, Problem

STEPS = 6


def gradients(bad_steps: tuple[int, ...], sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Six gradients. In each of the `bad_steps`, one number of one leaf is replaced by ∞, NaN or -∞, in turn.

    In the last of them, all leaves have bad numbers: it still counts as one step.
    """
    bias = rng.standard_normal((STEPS, sizes["D"])).astype("float32")
    embed = rng.standard_normal((STEPS, sizes["V"], sizes["D"])).astype("float32")
    scale = rng.standard_normal(STEPS).astype("float32")
    for turn, step in enumerate(bad_steps):
        leaf = (bias, embed[:, 0], scale[:, None])[turn % 3]
        leaf[step, rng.integers(leaf.shape[1])] = [float("inf"), float("nan"), -float("inf")][turn % 3]
    for step in bad_steps[-1:]:
        bias[step, :2] = embed[step, 0, :2] = scale[step] = float("inf")
    return {"a_embed": embed, "bias": bias, "scale": scale}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Finite gradients, too large for most tests of a whole."""
    values = gradients((), sizes, rng)
    values["a_embed"][1] = 3e38  # the sum overflows
    values["a_embed"][2, 0, 0] = -3.4e38  # alone
    values["bias"][3] = 1.2e19  # each square is finite, but not their sum
    values["bias"][4, 0] = 1e20  # the square overflows
    values["scale"][5] = 1.8e19  # its square is finite
    return values


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Several trees of blocks and a head. `bad` says for each leaf whether one number is NaN or an infinity, or none
    is."""
    leaves = 2 * BLOCKS + 1
    bad = (rng.random((sizes["trees"], leaves)) < 2 / leaves).astype("int32")
    bad *= rng.integers(1, 4, bad.shape).astype("int32")
    bad[:4] = 0
    bad[1, [2, 3]] = 2, 1
    bad[2, -1] = 3
    bad[3, [5, 21]] = 1, 2  # as text, blocks[10] comes before blocks[2]
    return {"x": rng.standard_normal((leaves, sizes["D"])).astype("float32"), "bad": bad}


LEAVES = ("a_embed", "z.0.bias")
BLOCKS = 12
PLACES = {
    2 * block + i: f"['blocks'][{block}]['{name}']" for block in range(BLOCKS) for i, name in enumerate(("attn", "ff"))
}


def of_step(case: Case, wrong: Difference) -> str:
    """A sentence on a wrong number of the probe `guarding`: of a step, or of the inner mean after all steps."""
    what, number, *leaf = wrong.path.split(".")
    at = list(wrong.index) or ""
    name = {
        "update": f"the update of `{'.'.join(leaf)}{at}` at step {number}",
        "skipped": f"`skipped` after step {number}",
        "inner": f"the inner mean of `{LEAVES[int(number) % 2]}{at}` after all steps",
    }[what]
    return f"{name} is {wrong.got}, expected {wrong.expected}"


SIZES = {"V": (3, 4), "D": (2, 5)}

PROBLEM = Problem(
    title="A guard against non-finite updates",
    minutes=65,
    builds_on=(9,),
    forbids=(
        "optax.apply_if_finite",
        "optax.conditionally_mask",
        "optax.conditionally_transform",
        "optax.skip_not_finite",
        "optax.MultiSteps",
        "optax.contrib",
    ),
    entries=(Entry("finite_guard", ("inner",)), Entry("first_nonfinite", ("tree",))),
    cases={
        "good": Cases(partial(gradients, ()), SIZES, draws=1),
        "bad": Cases(partial(gradients, (0, 2, 3, 5)), SIZES, draws=2),
        "large": Cases(large, {"V": (1,), "D": (5, 7)}, draws=1, covers=("one", "coprime")),
        "trees": Cases(activations, {"trees": (8,), "D": (3,)}, draws=1),
    },
    checks=(
        Check("good steps unchanged", 1, "guarding", leaves="update", cases="good", in_words=of_step),
        Check("bad steps skipped", 2, "guarding", leaves="update", cases="bad", in_words=of_step),
        Check(
            "works under jit", 1, "guarding", leaves="update", cases="bad", traced=True, in_words=of_step,
            advice="While jit traces the update, it is unknown whether the gradient is finite. Choose with "
                "`jax.lax.cond`.",
        ),
        Check("inner state unchanged by bad steps", 1, "guarding", leaves="inner", cases="bad", in_words=of_step),
        Check("skipped steps counted", 1, "guarding", leaves="skipped", cases="bad", tolerance=EXACT, in_words=of_step),
        Check(
            "large but finite gradients accepted", 1, "guarding", leaves="skipped", cases="large", tolerance=EXACT,
            in_words=of_step,
        ),
        Check(
            "first bad "
            "leaf", 2, "searching", calls=("first_nonfinite",), leaves="first_bad_leaf", cases="trees", tolerance=EXACT,
            words={-1: "None", -2: "a path that is not in the tree", **PLACES, 2 * BLOCKS: "['head']"},
        ),
    ),
)  # fmt: skip
