"""Problem 60: activation patching. The page is in pages/p60_activation_patching.md."""

from typing import Any

from jaxtyping import Array, Float, Int


def logit_difference(
    logits: Float[Array, "T V"],
    answer: Int[Array, ""],
    foil: Int[Array, ""],
) -> Float[Array, ""]:
    """The logit of the answer minus that of the foil, at the last position."""
    raise NotImplementedError


def patch_stream(
    model: Any,
    clean_ids: Int[Array, "T"],
    corrupted_ids: Int[Array, "T"],
    answer: Int[Array, ""],
    foil: Int[Array, ""],
) -> Float[Array, "L T"]:
    """The score of each run on the corrupted text in which one vector of the
    stream is the clean run's.

    Entry (l, t): the vector that enters block l at position t. 0 is the
    corrupted run, 1 the clean run.
    """
    raise NotImplementedError


def patch_heads(
    model: Any,
    clean_ids: Int[Array, "T"],
    corrupted_ids: Int[Array, "T"],
    answer: Int[Array, ""],
    foil: Int[Array, ""],
) -> Float[Array, "L H"]:
    """The score of each run on the corrupted text in which what one head mixed, at all
    positions, is the clean run's."""
    raise NotImplementedError
