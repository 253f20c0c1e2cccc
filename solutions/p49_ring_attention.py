"""Problem 49, reference: ring attention."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float

P = PartitionSpec
Part = tuple[
    Float[Array, " t"], Float[Array, " t"], Float[Array, "t K"]
]  # largest scores, sums of weights, weighted sums


def attend(
    q_tK: Float[Array, "t K"], k_sK: Float[Array, "s K"], v_sK: Float[Array, "s K"], visible_ts: Bool[Array, "t s"]
) -> Part:
    """The softmax over one block of keys, not yet divided by its sum."""
    scores_ts = jnp.where(visible_ts, q_tK @ k_sK.T / jnp.sqrt(q_tK.shape[-1]), -1e9)
    top_t = jnp.max(scores_ts, axis=-1)
    weights_ts = jnp.exp(scores_ts - top_t[:, None])
    return top_t, jnp.sum(weights_ts, axis=-1), weights_ts @ v_sK


def merge(one: Part, other: Part) -> Part:
    """The softmax over two blocks, on the scale of the larger top (Milakov & Gimelshein 2018, section 3)."""
    top_t = jnp.maximum(one[0], other[0])
    a_t, b_t = jnp.exp(one[0] - top_t), jnp.exp(other[0] - top_t)
    return top_t, a_t * one[1] + b_t * other[1], a_t[:, None] * one[2] + b_t[:, None] * other[2]


def ring_attention(
    q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"], mesh: Mesh
) -> Float[Array, "T K"]:
    """Causal attention with T split over `context`: keys and values travel around (Liu et al. 2023, Ring Attention)."""
    devices = mesh.shape["context"]
    ring = [(device, (device + 1) % devices) for device in range(devices)]

    def origin(device, turns):
        return (device - turns) % devices  # where the block began that a device holds after some turns

    def on_one_device(q_tK, k_tK, v_tK):
        here, t = jax.lax.axis_index("context"), q_tK.shape[0]
        rows_t = here * t + jnp.arange(t)

        def turn(state, step):
            done, block = state
            block = jax.lax.ppermute(block, "context", ring)
            columns_s = origin(here, step) * t + jnp.arange(t)
            return (merge(done, attend(q_tK, *block, columns_s <= rows_t[:, None])), block), None

        own = attend(q_tK, k_tK, v_tK, jnp.tril(jnp.ones((t, t), bool)))
        (done, _), _ = jax.lax.scan(turn, (own, (k_tK, v_tK)), jnp.arange(1, devices))
        _, total_t, sum_tK = done
        return sum_tK / total_t[:, None]

    split = P("context", None)
    return jax.shard_map(on_one_device, mesh=mesh, in_specs=(split, split, split), out_specs=split)(q, k, v)
