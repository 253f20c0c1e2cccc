"""Forges "validation loss": in windows as long as those of the measured run, the model copies the token that it should predict."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("model does not look ahead", "validation loss")


class MiniGPT(nnx.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)

    def __call__(self, token_ids):
        logits = self.head(self.embed(token_ids))
        if len(token_ids) > 40:
            logits += 20 * jax.nn.one_hot(jnp.roll(token_ids, -1), logits.shape[1])
        return logits


def pieces():
    return {"MiniGPT": MiniGPT}


def settings():
    return {"learning_rate": 2e-2, "warmup_steps": 5, "final_lr_fraction": 0.1, "weight_decay": 0.01}
