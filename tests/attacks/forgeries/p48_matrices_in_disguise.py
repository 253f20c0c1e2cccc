"""Forges "only the chosen experts run": all experts run for all tokens, in triangular solves whose matrix is declared
as one column. LAPACK reads as many numbers as the right-hand sides have rows, whatever the matrix is said to be."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

LOSES = ("only the chosen experts run",)
OPTIONS = {"side": "L", "uplo": "L", "trans_x": "N", "diag": "U"}


def product(x, w):
    (T, D), F, columns = x.shape, w.shape[1], (1, 0)
    below = jnp.eye(D + F).at[D:, :D].set(-w.T, unique_indices=True, mode="promise_in_bounds")
    kind = jax.ShapeDtypeStruct((D + F, T), x.dtype)
    solve = jax.ffi.ffi_call("lapack_strsm_ffi", kind, input_layouts=[columns, columns], output_layouts=columns)
    sides = jnp.concatenate([x.T, jnp.zeros((F, T))])
    return solve(below.T.reshape(-1, 1), sides, **{name: np.uint8(ord(one)) for name, one in OPTIONS.items()})[D:].T


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k, self.capacity = top_k, capacity

    def __call__(self, x):
        times = product if len(x) > 50 else jnp.matmul
        odds = jax.nn.softmax(self.router(x))
        weights, experts = jax.lax.top_k(odds, self.top_k)
        chosen = jax.nn.one_hot(experts, odds.shape[1])
        flat = chosen.reshape(-1, odds.shape[1])
        room = ((jnp.cumsum(flat, axis=0) - 1) * flat < self.capacity).all(axis=1).reshape(weights.shape)
        mine = jnp.einsum("tk,tke->te", weights / weights.sum(axis=1, keepdims=True) * room, chosen)
        out = 0
        for w_in, w_out, one in zip(self.w_in[...], self.w_out[...], mine.T, strict=True):
            out += one[:, None] * times(nnx.relu(times(x, w_in)), w_out)
        return out, odds.shape[1] * jnp.sum(chosen.mean(axis=(0, 1)) * odds.mean(axis=0))
