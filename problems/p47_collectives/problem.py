"""Problem 47: collectives, written by hand inside shard_map."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem


def layer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations and an MLP. The biases are as large as the products, so that one added eight times shows."""
    T, D, F = sizes["T"], sizes["D"], sizes["F"]
    shapes = {"x": (T, D), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Right-padded stories of very different lengths, so that devices have different numbers of targets. One has none."""
    V, B, T = sizes["V"], sizes["B"], sizes["T"]
    token_ids = rng.integers(0, V - 1, (B, T)).astype("int32")
    for row, real in enumerate(rng.integers(1, T + 1, B)):
        token_ids[row, real:] = V - 1
    token_ids[0] = rng.integers(0, V - 1, T)
    token_ids[B // 8 : B // 4, 1:] = V - 1  # the second device has no target
    return {"token_ids": token_ids, "vocab_size": V, "d_model": sizes["D"], "d_ff": sizes["F"]}


CALLED = {
    "all_reduce": "`psum` produces",
    "all_gather": "`all_gather` produces",
    "reduce_scatter": "`psum_scatter` produces",
}


def in_words(_: Case, wrong: Difference) -> str:
    """What the collectives exchange, kind by kind."""
    measure, _dot, kind = wrong.path.removeprefix("program.").partition(".")
    if measure != "exchanged":
        return f"`{wrong.path}` is {wrong.got}, expected {wrong.expected}; a program is measured only if its values are right"
    if kind == "written":
        return (
            f"the collectives that your code calls produce {wrong.got} bytes on each device, expected {wrong.expected}; call "
            "them yourself, inside `jax.shard_map`"
        )
    what = CALLED.get(kind, "collectives of other kinds produce")
    return f"in the compiled program, {what} {wrong.got} bytes on each device, expected {wrong.expected}"


def collectives(name: str, probe: str, options: Mapping[str, Any], advice: str) -> Check:
    """A check that the compiled program exchanges what the page says, and nothing else."""
    return exact(name, 2, probe, "program.exchanged", options=options, in_words=in_words, advice=advice)


WHERE = (
    " A collective that you did not write comes from `in_specs` or `out_specs` that differ from the placement on the page: "
    "then XLA moves the array."
)
TP, SP, DP = "tensor_parallel_mlp", "sequence_parallel_mlp", "data_parallel_gradient"
ARRAYS = ("x", "w1", "b1", "w2", "b2")

PROBLEM = Problem(
    title="Collectives by hand",
    builds_on=(12, 20, 21),
    entries=(
        Entry(TP, (*ARRAYS, "mesh")),
        Entry(SP, (*ARRAYS, "mesh")),
        Entry(DP, ("loss_sum", "parameters", "token_ids", "mesh"), returns=("loss", "gradients")),
    ),
    cases={
        "cases": Cases(layer, {"T": (16, 24), "D": (5,), "F": (40,)}, draws=1),
        "stories": Cases(stories, {"B": (16, 24), "T": (7,), "V": (11,), "D": (3,), "F": (9,)}, draws=1),
    },
    checks=(
        Check("tensor-parallel output", 1, "forward", {"entry": TP}, "output"),
        Check("tensor-parallel gradient", 1, "slopes", {"entry": TP}, "gradient"),
        collectives(
            "tensor-parallel collectives", "forward", {"entry": TP},
            "The program needs one `psum` of the (T, D) result, and nothing else." + WHERE,
        ),
        Check("sequence-parallel output", 1, "forward", {"entry": SP}, "output"),
        Check("sequence-parallel gradient", 1, "slopes", {"entry": SP}, "gradient"),
        collectives(
            "sequence-parallel collectives", "forward", {"entry": SP},
            "The program needs one `all_gather` of x to (T, D) and one `psum_scatter` to (T/8, D), and nothing else." + WHERE,
        ),
        Check("data-parallel loss", 1, "training", leaves="loss", cases="stories"),
        Check("data-parallel gradients", 2, "training", leaves="gradients", cases="stories"),
        exact(
            "data-parallel collectives", 1, "training", "program.exchanged", cases="stories", in_words=in_words,
            advice="The program needs one `psum` of the gradients. Sums of scalars do not count." + WHERE,
        ),
    ),
    devices=8,
    mesh=(8,),
    timeout=60.0,
)  # fmt: skip
