"""Problem 19, reference: mixed precision."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int
from p07_next_token_loss import next_token_loss

HALF = jnp.bfloat16


class MixedLM(nnx.Module):
    """One block with one head, and a tied output head. Float32 parameters, bfloat16 products (Micikevicius et al.
    2018)."""

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs):
        self.embed = nnx.Embed(vocab_size, d_model, dtype=HALF, rngs=rngs)
        self.ln1 = nnx.LayerNorm(d_model, dtype=HALF, rngs=rngs)
        self.q_proj = nnx.Linear(d_model, d_model, dtype=HALF, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, d_model, dtype=HALF, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, d_model, dtype=HALF, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, dtype=HALF, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d_model, dtype=HALF, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, dtype=HALF, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, dtype=HALF, rngs=rngs)
        self.ln_f = nnx.LayerNorm(d_model, dtype=HALF, rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        x = self.embed(token_ids)
        x = x + self.attend(self.ln1(x))
        x = x + self.ff2(nnx.gelu(self.ff1(self.ln2(x))))
        table_VD = self.embed.embedding[...].astype(HALF)
        return jnp.matmul(self.ln_f(x), table_VD.T, preferred_element_type=jnp.float32)

    def attend(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores_TT = jnp.matmul(q, k.T, preferred_element_type=jnp.float32) / jnp.sqrt(jnp.float32(q.shape[-1]))
        visible_TT = jnp.tril(jnp.ones(scores_TT.shape, bool))
        weights_TT = jax.nn.softmax(jnp.where(visible_TT, scores_TT, -1e9))
        return self.out_proj(weights_TT.astype(HALF) @ v)


def mixed_loss(model: MixedLM, token_ids: Int[Array, "T"], pad_id: int) -> Float[Array, ""]:
    """The loss of problem 07, on logits that are already float32."""
    return next_token_loss(model(token_ids), token_ids, pad_id)
