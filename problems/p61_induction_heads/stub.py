"""Problem 61: induction heads. The page is in pages/p61_induction_heads.md."""

from collections.abc import Mapping

from jaxtyping import Array, Float, Int

# "embed" (V, D), "positions" (P, D), "q", "k", "v" (2, D, K), "o" (2, K, D),
# "unembed" (D, V)
Weights = Mapping[str, Float[Array, "..."]]


def attention_only(
    weights: Weights,
    token_ids: Int[Array, "T"],
) -> tuple[Float[Array, "T V"], Float[Array, "2 T T"]]:
    """The pair (logits; the attention pattern of each layer) of a model of two
    layers with one head each."""
    raise NotImplementedError


def induction_weights(vocab_size: int, max_T: int) -> Weights:
    """Weights of such a model, written by hand, that copy: after [A] [B] ... [A]
    the likeliest token is [B]."""
    raise NotImplementedError


def head_scores(
    patterns: Float[Array, "H T T"],
    period: int,
) -> tuple[Float[Array, "H"], Float[Array, "H"]]:
    """The pair (previous-token score, induction score) of each head, from its patterns
    on a text with this period."""
    raise NotImplementedError


def compositions(
    weights: Weights,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """How much layer 0 writes into the queries, the keys and the values of layer 1:
    (queries, keys, values)."""
    raise NotImplementedError
