"""Problem 24: widths that share a learning rate. The page is in pages/p24_mup.md."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int


class MupLM(nnx.Module):
    """An embedding, a hidden layer with ReLU and a head, initialized so that
    activations do not grow with the width."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        base_d_model: int,
        rngs: nnx.Rngs,
    ):
        """Builds `embed`, `hidden` (d_model to d_model) and `head` (no bias)."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """token_ids: (T,). Returns logits, (T, V)."""
        raise NotImplementedError


def mup_adam(
    learning_rate: float,
    d_model: int,
    base_d_model: int,
) -> optax.GradientTransformation:
    """Adam with the rates of the page, so that one `learning_rate` serves all
    widths."""
    raise NotImplementedError
