"""A fori_loop that attends before it sends, backward around the ring; check_vma=False; the classic update of flash
attention."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


def ring_attention(q, k, v, mesh):
    n = mesh.devices.size
    specs = P("context", None)

    @partial(jax.shard_map, mesh=mesh, in_specs=(specs,) * 3, out_specs=specs, check_vma=False)
    def attend(q, k, v):
        size, width = q.shape
        me = lax.axis_index("context")
        position = jnp.arange(size)[:, None]
        q = q / width**0.5

        def body(r, carry):
            o, z, m, k, v = carry
            owner = (me + r) % n
            s = jnp.einsum("td,sd->ts", q, k)
            s = jnp.where(me * size + position >= owner * size + position.T, s, -1e30)
            new = jnp.maximum(m, s.max(-1, keepdims=True))
            p, keep = jnp.exp(s - new), jnp.exp(m - new)
            o, z = o * keep + p @ v, z * keep + p.sum(-1, keepdims=True)
            back = [(i, (i - 1) % n) for i in range(n)]
            return o, z, new, lax.ppermute(k, "context", back), lax.ppermute(v, "context", back)

        start = jnp.zeros_like(q), jnp.zeros((size, 1)), jnp.full((size, 1), -jnp.inf)
        o, z, *_ = lax.fori_loop(0, n, body, (*start, k, v))
        return o / z

    return attend(q, k, v)
