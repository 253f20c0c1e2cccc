"""The sum of squares as a product with float32 sums, and projections by einsum."""

import jax.numpy as jnp
from flax import nnx


class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, rngs):
        self.scale = nnx.Param(jnp.ones((d_model,), jnp.float32))
        self.width, self.epsilon = d_model, epsilon

    def __call__(self, x):
        total = jnp.einsum("td,td->t", x, x, preferred_element_type=jnp.float32)
        factor = (total / self.width + self.epsilon) ** -0.5
        return jnp.einsum("td,t,d->td", x.astype(jnp.float32), factor, self.scale[...]).astype(x.dtype)


class SwiGLU(nnx.Module):
    def __init__(self, d_model, d_ff, rngs):
        for name, sizes in {
            "gate_proj": (d_model, d_ff),
            "up_proj": (d_model, d_ff),
            "down_proj": (d_ff, d_model),
        }.items():
            setattr(self, name, nnx.Linear(*sizes, use_bias=False, rngs=rngs))

    def __call__(self, x):
        gate, up = (jnp.einsum("td,df->tf", x, p.kernel[...]) for p in (self.gate_proj, self.up_proj))
        return jnp.einsum("tf,fd->td", gate / (1 + jnp.exp(-gate)) * up, self.down_proj.kernel[...])
