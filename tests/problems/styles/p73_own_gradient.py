"""A loop that takes as many tiles as are needed, so that no work depends on a bound: `fori_loop` with a gradient of its
own, which runs the same tiles once more."""

import jax
import jax.numpy as jnp

ROWS = 6


def route(x, w, bias, k):
    logits = jnp.matmul(x, w)
    p = jax.nn.sigmoid(logits)
    experts = jax.lax.top_k(p + jax.lax.stop_gradient(bias), k)[1]
    each = jnp.take_along_axis(p, experts, 1)
    return experts, each * (1 / (each.sum(1) + 1e-9))[:, None]


def update_bias(bias, counts, rate):
    counts = counts.astype(jnp.float32)
    return bias - rate * jnp.sign(counts - counts.mean())


def ffn(x, a, b):
    h = x @ a
    f = b.shape[0]
    return (jax.nn.silu(h[:, :f]) * h[:, f:]) @ b


def weighted(x, weight, a, b):
    return weight[:, None] * ffn(x, a, b)


def tiles(experts, E):
    """The order of the choices, the number of tiles, and a function from a tile to its expert, choices and mask."""
    order = jnp.argsort(experts, stable=True)
    counts = jnp.bincount(experts, length=E)
    ends, last = jnp.cumsum(counts), jnp.cumsum((counts + ROWS - 1) // ROWS)

    def tile(j):
        e = jnp.sum(last <= j)
        first = (ends - counts)[e] + ROWS * (j - (last - (counts + ROWS - 1) // ROWS)[e])
        places = first + jnp.arange(ROWS)
        return e, order[jnp.clip(places, 0, len(order) - 1)], places < ends[e]

    return last[-1], tile, counts


@jax.custom_vjp
def mixed(x, weights, experts, w_in, w_out):
    many, tile, _ = tiles(experts.ravel(), len(w_in))
    k, flat = experts.shape[1], weights.ravel()

    def body(j, out):
        e, choice, mine = tile(j)
        return out.at[choice // k].add(weighted(x[choice // k], flat[choice] * mine, w_in[e], w_out[e]))

    return jax.lax.fori_loop(0, many, body, jnp.zeros_like(x))


def backward(saved, slope):
    x, weights, experts, w_in, w_out = saved
    many, tile, _ = tiles(experts.ravel(), len(w_in))
    k, flat = experts.shape[1], weights.ravel()

    def body(j, sums):
        e, choice, mine = tile(j)
        back = jax.vjp(weighted, x[choice // k], flat[choice] * mine, w_in[e], w_out[e])[1]
        dx, dw, da, db = back(slope[choice // k])
        return (
            sums[0].at[choice // k].add(dx),
            sums[1].at[choice].add(dw * mine),
            sums[2].at[e].add(da),
            sums[3].at[e].add(db),
        )

    dx, dw, da, db = jax.lax.fori_loop(0, many, body, tuple(map(jnp.zeros_like, (x, flat, w_in, w_out))))
    return dx, dw.reshape(weights.shape), None, da, db


mixed.defvjp(lambda *args: (mixed(*args), args), backward)


def moe(x, w, bias, k, w_in, w_out, shared_in, shared_out):
    experts, weights = route(x, w, bias, k)
    routed = mixed(x, weights, experts, w_in, w_out)
    return routed + ffn(x, shared_in, shared_out), jnp.bincount(experts.ravel(), length=len(w_in))
