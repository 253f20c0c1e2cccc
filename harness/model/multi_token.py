"""A module beside a GPT that predicts the token after the next (multi-token prediction, DeepSeek-AI 2024)."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from harness.model.gpt import Key, ModuleFactory
from harness.model.layers import by_row, kernel_inits
from harness.model.segments import Segments
from harness.model_config import ModelConfig


class MultiToken(nnx.Module):
    """Row t: the hidden state of position t and the vector of token t + 1 become the input of the head for token t + 2.

    The state comes from after the final norm of the model. The block attends to all earlier rows.
    """

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, make_block: ModuleFactory, make_norm: ModuleFactory):
        self.full_layer = config.full_every - 1 if config.full_every else 0
        self.token_norm, self.hidden_norm = make_norm(config, rngs), make_norm(config, rngs)
        inner, _ = kernel_inits(config)
        width, dtype = config.d_model, jnp.dtype(config.dtype)
        self.join = nnx.Linear(2 * width, width, use_bias=False, kernel_init=inner, dtype=dtype, rngs=rngs)
        self.block: Any = make_block(config.of_mtp(), rngs)
        self.norm = make_norm(config, rngs)

    def __call__(
        self,
        hidden_BTD: Float[Array, "B T D"],
        next_BTD: Float[Array, "B T D"],
        key: Key = None,
        segments: Segments | None = None,
    ) -> Float[Array, "B T D"]:
        """The input of the head, where `next_BTD` are the vectors of the tokens after those of `hidden_BTD`."""
        both_BTX = jnp.concatenate([by_row(self.token_norm, next_BTD), by_row(self.hidden_norm, hidden_BTD)], axis=-1)
        x_BTD, _ = self.block(self.join(both_BTX), key, 0, None, self.full_layer, 0, segments)
        return by_row(self.norm, x_BTD)
