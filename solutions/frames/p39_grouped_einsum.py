"""One product for q, k and v; queries as (T, G, R, K), so nothing is repeated; the cache as a tuple, written by
`dynamic_update_slice`.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, head_dim=None, *, rngs):
        self.groups, self.width, self.base = num_kv_heads, head_dim or d_model // num_heads, rope_base
        kv_width = num_kv_heads * self.width
        self.out_proj = nnx.Linear(num_heads * self.width, d_model, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, kv_width, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, kv_width, use_bias=False, rngs=rngs)
        self.q_proj = nnx.Linear(d_model, num_heads * self.width, use_bias=False, rngs=rngs)

    def heads(self, x, positions):
        t = len(x)
        kernels = [layer.kernel[...] for layer in (self.q_proj, self.k_proj, self.v_proj)]
        # The heads of q come first, then those of k, then those of v.
        heads = (x @ jnp.concatenate(kernels, axis=1)).reshape(t, -1, self.width)
        q, k, v = jnp.split(heads, [heads.shape[1] - 2 * self.groups, heads.shape[1] - self.groups], axis=1)
        q, k = (rope(a, positions, self.base) for a in (q, k))
        return q.reshape(t, self.groups, -1, self.width), k, v

    def mix(self, q, k, v, visible):
        scores = jnp.einsum("tgrk,sgk->grts", q, k) * self.width**-0.5
        weights = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
        return self.out_proj(jnp.einsum("grts,sgk->tgrk", weights, v).reshape(len(q), -1))

    def __call__(self, x, mask=None):
        steps = jnp.arange(len(x))
        return self.mix(*self.heads(x, steps), steps[:, None] >= steps if mask is None else mask)

    def empty_cache(self, context):
        return jnp.zeros((2, context, self.groups, self.width)), jnp.array(0)

    def decode_step(self, cache, x):
        rows, t = cache
        q, k, v = self.heads(x[None], t[None])
        rows = jax.lax.dynamic_update_slice(rows, jnp.stack([k, v]), (0, t, 0, 0))
        return self.mix(q, *rows, jnp.arange(rows.shape[1]) <= t)[0], (rows, t + 1)
