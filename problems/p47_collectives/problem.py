"""Problem 47: collectives, written by hand inside shard_map."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.checks import collectives
from grader.problem import Cases, Check, Entry, Problem, Tolerance


def layer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations and an MLP. The biases are as large as the products, so that one added eight times shows."""
    T, D, F = sizes["T"], sizes["D"], sizes["F"]
    shapes = {"x": (T, D), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Right-padded stories of very different lengths, so that devices have different numbers of targets. One has
    none."""
    V, B, T = sizes["V"], sizes["B"], sizes["T"]
    token_ids = rng.integers(0, V - 1, (B, T)).astype("int32")
    for row, real in enumerate(rng.integers(1, T + 1, B)):
        token_ids[row, real:] = V - 1
    token_ids[0] = rng.integers(0, V - 1, T)
    token_ids[B // 8 : B // 4, 1:] = V - 1  # the second device has no target
    return {"token_ids": token_ids, "vocab_size": V, "d_model": sizes["D"], "d_ff": sizes["F"]}


TP, SP, DP = "tensor_parallel_mlp", "sequence_parallel_mlp", "data_parallel_gradient"
ARRAYS = ("x", "w1", "b1", "w2", "b2")
# The gradients have 3,664 bytes. A program may join the loss and the number of targets with them, in one vector: 8
# bytes more, which is half of what is allowed. Gradients that are summed twice, or not, are 100% away.
WITH_SCALARS = Tolerance(rtol=16 / 3664, atol=0.0, room=1.9)

PROBLEM = Problem(
    title="Collectives by hand",
    minutes=120,
    builds_on=(12, 20, 21),
    entries=(
        Entry(TP, (*ARRAYS, "mesh")),
        Entry(SP, (*ARRAYS, "mesh")),
        Entry(DP, ("loss_sum", "parameters", "token_ids", "mesh"), returns=("loss", "gradients")),
    ),
    cases={
        "cases": Cases(layer, {"T": (16, 24), "D": (5,), "F": (40,)}, draws=1),
        "stories": Cases(stories, {"B": (16, 24), "T": (7,), "V": (11,), "D": (3,), "F": (9,)}, draws=1),
        "one": Cases(layer, {"T": (8,), "D": (1,), "F": (8,)}, draws=1, covers=("one",)),
        # How often each pair of tokens occurs is all that the loss depends on. Here, that takes about 37,000 bits, and
        # what a `psum` of all gradients holds, with the scalars that do not count, 30,400. No array of the gradients is
        # so small that it does not count.
        "many": Cases(stories, {"B": (400, 408), "T": (97,), "V": (151,), "D": (1,), "F": (5,)}, draws=1),
    },
    checks=(
        Check("tensor-parallel output", 1, "forward", {"entry": TP}, "output"),
        Check("tensor-parallel gradient", 1, "slopes", {"entry": TP}, "gradient"),
        collectives(
            "tensor-parallel collectives", 2, "forward", {"entry": TP},
            "The program needs one `psum` of the (T, D) result, and nothing else.",
        ),
        Check("sequence-parallel output", 1, "forward", {"entry": SP}, "output"),
        Check("one row and one feature a device", 1, "forward", {"entry": SP}, "output", cases="one"),
        Check("sequence-parallel gradient", 1, "slopes", {"entry": SP}, "gradient"),
        collectives(
            "sequence-parallel collectives", 2, "forward", {"entry": SP},
            "The program needs one `all_gather` of x to (T, D) and one `psum_scatter` to (T/8, D), and nothing else.",
        ),
        Check("data-parallel loss", 1, "training", leaves="loss", cases="stories"),
        Check("data-parallel gradients", 2, "training", leaves="gradients", cases="stories"),
        replace(
            collectives(
                "data-parallel collectives", 1, "training", {},
                "The program needs one `psum` of the gradients. A few scalars more do not count.", cases="many",
            ),
            tolerance=WITH_SCALARS,
        ),
    ),
    devices=8,
    mesh=(8,),
    places_inputs=True,
    timeout=60.0,
    without={
        "coprime": "8 divides T, F and B, because each is split over eight devices",
        "vocabulary": "only `loss_sum` knows the vocabulary, and the grader gives that",
    },
)  # fmt: skip
