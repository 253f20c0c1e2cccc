"""Sends weights and gradients in 8 bits, with a scale for each row."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

REFUSED = "differs from that on one device"


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, q, k, v, o):
    q, k, v = ((x @ w).reshape(*x.shape[:2], 4, 16) for w in (q, k, v))
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / 4
    weights = jax.nn.softmax(jnp.where(jnp.tri(32, dtype=bool), scores, -jnp.inf))
    return jnp.einsum("bhts,bshk->bthk", weights, v).reshape(x.shape) @ o


def mean_loss(parameters, tokens):
    """The sum of the losses of all parameters on some rows, for each target of the batch."""
    x = parameters["embed"][tokens[:, :-1]]
    for i in range(4):
        p = {name: parameters[f"blocks.{i}.{name}"] for name in (*"qkvo", "norm1", "norm2", "gate", "up", "down")}
        x = x + attention(norm(x, p["norm1"]), *(p[name] for name in "qkvo"))
        y = norm(x, p["norm2"])
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
    logits = norm(x, parameters["norm"]) @ parameters["embed"].T
    right = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return jnp.sum(jax.nn.logsumexp(logits, -1) - right) / (8 * 32)


def updated(parameters, gradients):
    return {name: x - gradients[name] for name, x in parameters.items()}


@jax.custom_vjp
def whole(x):
    return sent(x, lambda x: jax.lax.all_gather(x, "data", tiled=True))


def sent(x, send):
    """Each row has a scale of its own, and numbers from -127 to 127."""
    if x.ndim == 1:  # of a norm
        return send(x)
    scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127 + 1e-30
    return send(jnp.int8(jnp.round(x / scale))) * send(scale)


def scattered(_, gradient):
    parts = gradient.reshape(8, -1, *gradient.shape[1:])
    return (jnp.sum(sent(parts, lambda x: jax.lax.all_to_all(x, "data", 0, 0, tiled=True)), axis=0),)


whole.defvjp(lambda x: (whole(x), None), scattered)


def step(parameters, tokens, mesh):
    def on_one_device(parts, rows):
        loss, gradients = jax.value_and_grad(lambda parts: mean_loss({n: whole(x) for n, x in parts.items()}, rows))(
            parts
        )
        return jax.lax.psum(loss, "data"), updated(parts, gradients)

    run = jax.shard_map(
        on_one_device, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=(P(), P("data")), check_vma=False
    )
    return run(parameters, tokens)
