"""Problem 59: the logit lens. The page is in pages/p59_logit_lens.md."""

from typing import Any

from jaxtyping import Array, Float, Int


def logit_lens(model: Any, token_ids: Int[Array, "T"]) -> Float[Array, "L+1 T V"]:
    """The logits if the model ended after 0, 1, ... L blocks: row l is what
    it says after l of them.

    model: a MiniGPT. Use its layers.
    """
    raise NotImplementedError


def logit_parts(
    model: Any,
    token_ids: Int[Array, "T"],
    token_id: Int[Array, ""],
) -> tuple[
    Float[Array, "2"],
    Float[Array, "L H"],
    Float[Array, "L F"],
    Float[Array, ""],
]:
    """What adds up to the logit of `token_id` at the last position: (embeddings,
    heads, neurons, biases).

    embeddings: the parts of the token's and of the position's embedding, (2,).
    heads: the part of each head of each block, (L, H). neurons: that of each neuron,
    (L, F). biases: the part of all biases behind the heads, behind the neurons and
    of the final norm, a scalar.
    """
    raise NotImplementedError
