"""A selective state space (Gu and Dao 2023, Mamba, without its short convolution): positions mixed by a state of fixed
size.

Shapes: B batch, T positions, D model width, N numbers of the state for each of the D, L layers.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from harness.model.layers import Projection, kernel_inits, split_over
from harness.model_config import ModelConfig

# The backward pass keeps the state before each chunk of so many positions, and computes those inside of it again.
CHUNKS = {"cpu": 32}
CHUNK = 256  # of other devices
STEP_BIAS = -3.0  # initial step sizes of about softplus(-3) = 0.05: most of a state is kept for 20 positions

States = Float[Array, "L B D N"]


class StateSpace(nnx.Module):
    """A recurrence whose decay, input and output depend on the token. It needs no positions, and its cache is its
    state."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        D, N = config.d_model, config.d_state
        inner, outer = kernel_inits(config)
        linear = functools.partial(Projection, dtype=jnp.dtype(config.dtype), use_bias=False, rngs=rngs)
        self.u_gate = linear(D, (2, D), kernel_init=inner, **split_over(-1))
        self.bc = linear(D, (2, N), kernel_init=inner, **split_over(-3))
        self.dt = linear(
            D,
            (D,),
            use_bias=True,
            kernel_init=inner,
            bias_init=nnx.initializers.constant(STEP_BIAS),
            **split_over(-1, -1),
        )
        rates_DN = jnp.tile(jnp.arange(1.0, N + 1), (D, 1))
        self.a_log = nnx.Param(jnp.log(rates_DN), model_axis=-2)
        self.skip = nnx.Param(jnp.ones(D), model_axis=-1)
        self.out_proj = linear(D, (D,), kernel_init=outer, **split_over(-2))

    def empty_cache(self, batch: int) -> Float[Array, "B D N"]:
        """The state of one layer before the first position."""
        return jnp.zeros((batch, *self.a_log.shape))

    @jax.named_scope("state-space")
    def __call__(
        self, x_BTD: Float[Array, "B T D"], position=0, cache: States | None = None, layer=0, last=0
    ) -> tuple[Float[Array, "B T D"], States | None]:
        """Runs the recurrence over all positions, from the state 0.

        With a cache, runs from the state of `layer`, and returns the cache with the state after the position at index
        `last`.
        """
        (u_BTD, gate_BTD), f32 = jnp.moveaxis(self.u_gate(x_BTD), 2, 0), jnp.float32
        b_BTN, c_BTN = jnp.moveaxis(self.bc(u_BTD).astype(f32), 2, 0)
        dt_BTD = jax.nn.softplus(self.dt(u_BTD).astype(f32))
        if cache is None:
            state_BDN = self.empty_cache(len(x_BTD))
        else:
            state_BDN = cache[layer]
            is_padding_1T1 = jnp.arange(x_BTD.shape[1])[None, :, None] > last
            dt_BTD = jnp.where(is_padding_1T1, 0.0, dt_BTD)  # a step of size 0 leaves the state as it is
        y_BTD, state_BDN = selective_scan(u_BTD.astype(f32), dt_BTD, -jnp.exp(self.a_log[...]), b_BTN, c_BTN, state_BDN)
        y_BTD = (y_BTD + self.skip[...][None, None] * u_BTD.astype(f32)).astype(u_BTD.dtype)
        out_BTD = self.out_proj(y_BTD * jax.nn.silu(gate_BTD))
        return out_BTD, None if cache is None else cache.at[layer].set(state_BDN)


def selective_scan(
    u_BTD: Float[Array, "B T D"],
    dt_BTD: Float[Array, "B T D"],
    a_DN: Float[Array, "D N"],
    b_BTN: Float[Array, "B T N"],
    c_BTN: Float[Array, "B T N"],
    state_BDN: Float[Array, "B D N"],
) -> tuple[Float[Array, "B T D"], Float[Array, "B D N"]]:
    """`h[t] = exp(dt[t] a) h[t-1] + dt[t] u[t] b[t]` and `y[t] = h[t] c[t]`, and the last h."""
    backend = jax.default_backend()
    T = dt_BTD.shape[1]
    size = min(CHUNKS.get(backend, CHUNK), T)

    def chunks(x_BTX: Array) -> Array:
        """The array `(T / size, size, B, X)`, at whose end positions with steps of size 0 leave the state as it is."""
        x_TBX = jnp.pad(x_BTX, ((0, 0), (0, -T % size), (0, 0))).swapaxes(0, 1)
        return x_TBX.reshape(-1, size, *x_TBX.shape[1:])

    # A CPU computes fastest what stays in its cache, and a GPU what it can compute at once.
    run = jax.checkpoint(functools.partial(_in_turn if backend == "cpu" else _joined, a_DN), prevent_cse=False)
    state_BDN, y_CTBD = jax.lax.scan(run, state_BDN, tuple(map(chunks, (u_BTD, dt_BTD, b_BTN, c_BTN))))
    return y_CTBD.reshape(-1, *y_CTBD.shape[2:])[:T].swapaxes(0, 1), state_BDN


def _in_turn(a_DN: Array, state_BDN: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
    """The last state of a chunk and its outputs, one position after the other."""

    def advance(state_BDN: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        u_BD, dt_BD, b_BN, c_BN = inputs
        decay_BDN = jnp.exp(dt_BD[..., None] * a_DN[None])
        state_BDN = decay_BDN * state_BDN + (dt_BD * u_BD)[..., None] * b_BN[:, None]
        return state_BDN, jnp.sum(state_BDN * c_BN[:, None], -1)

    return jax.lax.scan(advance, state_BDN, inputs)


def _joined(a_DN: Array, state_BDN: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
    """The same, where neighbors are joined, and neighbors of neighbors (Blelloch 1990): about 2 log2(T) rounds."""
    u_TBD, dt_TBD, b_TBN, c_TBN = inputs
    decay_TBDN = jnp.exp(dt_TBD[..., None] * a_DN[None, None])
    added_TBDN = (dt_TBD * u_TBD)[..., None] * b_TBN[:, :, None]
    added_TBDN = added_TBDN.at[0].add(decay_TBDN[0] * state_BDN)

    def join(earlier: tuple[Array, Array], later: tuple[Array, Array]) -> tuple[Array, Array]:
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    _, state_TBDN = jax.lax.associative_scan(join, (decay_TBDN, added_TBDN))
    return state_TBDN[-1], jnp.sum(state_TBDN * c_TBN[:, :, None], -1)
