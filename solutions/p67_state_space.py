"""Problem 67, reference: a selective state space (Gu and Dao 2023, Mamba, without its short convolution)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


def selective_scan(
    u: Float[Array, "T D"],
    dt: Float[Array, "T D"],
    a: Float[Array, "D N"],
    b: Float[Array, "T N"],
    c: Float[Array, "T N"],
    state: Float[Array, "D N"],
) -> tuple[Float[Array, "T D"], Float[Array, "D N"]]:
    """h[t] = exp(dt[t] a) h[t-1] + dt[t] u[t] b[t] and y[t] = h[t] c[t], for all t at once. Returns (y, the last h)."""
    decay_TDN = jnp.exp(dt[:, :, None] * a)
    added_TDN = (dt * u)[:, :, None] * b[:, None, :]
    added_TDN = added_TDN.at[0].add(decay_TDN[0] * state)

    def join(earlier: tuple[Array, Array], later: tuple[Array, Array]) -> tuple[Array, Array]:
        (decay, h), (later_decay, later_h) = earlier, later
        return later_decay * decay, later_decay * h + later_h

    _, h_TDN = jax.lax.associative_scan(join, (decay_TDN, added_TDN))
    return jnp.einsum("tdn,tn->td", h_TDN, c), h_TDN[-1]


class SelectiveSSM(nnx.Module):
    """A layer that mixes positions by a state of fixed size, which each token decides how to change."""

    def __init__(self, d_model: int, d_state: int, rngs: nnx.Rngs) -> None:
        D, N = d_model, d_state
        self.in_proj = nnx.Linear(D, 2 * D, use_bias=False, rngs=rngs)
        self.bc_proj = nnx.Linear(D, 2 * N, use_bias=False, rngs=rngs)
        self.dt_proj = nnx.Linear(D, D, bias_init=nnx.initializers.constant(-3.0), rngs=rngs)
        self.a_log = nnx.Param(jnp.tile(jnp.log(jnp.arange(1.0, N + 1)), (D, 1)))
        self.skip = nnx.Param(jnp.ones(D))
        self.out_proj = nnx.Linear(D, D, use_bias=False, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        return self.extend(self.empty_cache(len(x)), x)[0]

    def empty_cache(self, context: int) -> Float[Array, "D N"]:
        return jnp.zeros(self.a_log.shape)

    def extend(
        self, cache: Float[Array, "D N"], x: Float[Array, "T D"]
    ) -> tuple[Float[Array, "T D"], Float[Array, "D N"]]:
        u_TD, gate_TD = jnp.split(self.in_proj(x), 2, axis=-1)
        b_TN, c_TN = jnp.split(self.bc_proj(u_TD), 2, axis=-1)
        dt_TD = jax.nn.softplus(self.dt_proj(u_TD))
        a_DN = -jnp.exp(self.a_log[...])
        y_TD, cache = selective_scan(u_TD, dt_TD, a_DN, b_TN, c_TN, cache)
        y_TD = (y_TD + self.skip[...] * u_TD) * jax.nn.silu(gate_TD)
        return self.out_proj(y_TD), cache

    def decode_step(
        self, cache: Float[Array, "D N"], x: Float[Array, "D"]
    ) -> tuple[Float[Array, "D"], Float[Array, "D N"]]:
        out_1D, cache = self.extend(cache, x[None])
        return out_1D[0], cache
