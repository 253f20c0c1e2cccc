"""Attention by jax.nn.dot_product_attention; norms in float32; the loss compiled by nnx.jit."""

import jax
import jax.numpy as jnp
from flax import nnx
from p07_next_token_loss import next_token_loss


class MixedLM(nnx.Module):
    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs):
        half = {"dtype": jnp.bfloat16, "param_dtype": jnp.float32, "rngs": rngs}
        self.embed = nnx.Embed(vocab_size, d_model, **half)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nnx.Linear(d_model, d_model, **half) for _ in range(4))
        self.ff1, self.ff2 = nnx.Linear(d_model, d_ff, **half), nnx.Linear(d_ff, d_model, **half)
        self.ln1, self.ln2, self.ln_f = (nnx.LayerNorm(d_model, rngs=rngs) for _ in range(3))

    def __call__(self, token_ids):
        x = self.embed(token_ids)
        normal = self.ln1(x)
        q, k, v = (layer(normal)[:, None] for layer in (self.q_proj, self.k_proj, self.v_proj))
        x += self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True)[:, 0])
        x += self.ff2(jax.nn.gelu(self.ff1(self.ln2(x))))
        x, table = self.ln_f(x).astype(jnp.bfloat16), self.embed.embedding[...].astype(jnp.bfloat16)
        return jax.lax.dot_general(x, table, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


@nnx.jit
def mixed_loss(model, token_ids, pad_id):
    return next_token_loss(model(token_ids), token_ids, pad_id)
