"""RMSNorm as `nnx.RMSNorm` computes it, and SwiGLU as Llama's MLP in `transformers`: an activation that is looked up by
name."""

import jax
import jax.numpy as jnp
from flax import nnx

ACTIVATIONS = {"silu": nnx.silu, "gelu": nnx.gelu, "relu": nnx.relu}


class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, rngs):
        self.scale = nnx.Param(nnx.initializers.ones_init()(rngs.params(), (d_model,), jnp.float32))
        self.epsilon = epsilon

    def __call__(self, x):
        wide = jnp.asarray(x, jnp.promote_types(jnp.float32, x.dtype))
        var = jnp.expand_dims(jax.lax.square(wide).mean(-1), -1)
        factor = jax.lax.rsqrt(var + self.epsilon) * self.scale[...].reshape((1,) * (x.ndim - 1) + (-1,))
        return jnp.asarray(wide * factor, x.dtype)


class SwiGLU(nnx.Module):
    def __init__(self, d_model, d_ff, rngs, hidden_act="silu"):
        self.gate_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_ff, d_model, use_bias=False, rngs=rngs)
        self.act_fn = ACTIVATIONS[hidden_act]

    def __call__(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
