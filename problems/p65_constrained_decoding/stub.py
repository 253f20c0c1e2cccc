"""Problem 65: constrained decoding.

The page is in pages/p65_constrained_decoding.md.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Array, Bool, Float, Int

# ("byte", b"ab"), ("then", x, y), ("or", x, y) or ("many", x)
Expression = tuple[Any, ...]


def build_automaton(
    expression: Expression,
) -> tuple[Int[Array, "S 256"], Bool[Array, "S"]]:
    """The pair (next state of each state and byte, or -1; whether a text may end in a
    state). A text begins in state 0."""
    raise NotImplementedError


def token_transitions(
    transitions: Int[Array, "S 256"],
    accepting: Bool[Array, "S"],
    vocabulary: Sequence[bytes],
    end_id: int,
) -> Int[Array, "S V"]:
    """The state after each token, -1 if the token is not allowed."""
    raise NotImplementedError


def constrained_probabilities(
    logits: Float[Array, "V"],
    row: Int[Array, "V"],
) -> Float[Array, "V"]:
    """The distribution over the allowed tokens of one state. `row`: the row of that
    state in `token_transitions`."""
    raise NotImplementedError


def constrained_text(
    next_logits: Callable[[list[int]], Float[Array, "V"]],
    next_states: Int[Array, "S V"],
    end_id: int,
    max_tokens: int,
) -> list[int]:
    """The likeliest allowed token again and again, from state 0, up to the end
    token or `max_tokens` tokens.

    next_logits: returns the logits (V,) after a list of token ids,
    which is empty at first.
    """
    raise NotImplementedError
