"""The tightest step, bronze: bfloat16, and activations travel where the table of tokens would."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

BLOCKS, HEADS, TARGETS = 4, 4, 8 * 32  # targets of the whole batch
OF_A_BLOCK = ("norm1", "q", "k", "v", "o", "norm2", "gate", "up", "down")
RATE = 1.0
SENT = jnp.bfloat16


def whole(x: jax.Array) -> jax.Array:
    """An array of which each device has a part of the rows. Its gradient is summed over the devices, and scattered."""
    return jax.lax.all_gather(x.astype(SENT), "data", tiled=True).astype(jnp.float32)


def scattered(x: jax.Array) -> jax.Array:
    """The device's part of the rows of a sum over all devices."""
    return jax.lax.psum_scatter(x.astype(SENT), "data", tiled=True).astype(jnp.float32)


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, o: jax.Array, heads: int) -> jax.Array:
    """Causal attention of rows (b, T, D), without positions."""
    b, T, _ = x.shape
    q, k, v = ((x @ w).reshape(b, T, heads, -1) for w in (q, k, v))
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5
    weights = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), scores, -jnp.inf))
    return jnp.einsum("bhts,bshk->bthk", weights, v).reshape(b, T, -1) @ o


def mlp(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """SwiGLU."""
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def own(tokens: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """The rows of tokens in the device's n rows of the table, and which tokens have one there."""
    rows = tokens - jax.lax.axis_index("data") * n
    here = (rows >= 0) & (rows < n)
    return jnp.where(here, rows, 0), here


def embedded(table: jax.Array, tokens: jax.Array) -> jax.Array:
    """The rows of the table for the device's part of all tokens (B, T): each device gives those that it has."""
    rows, here = own(tokens, len(table))
    return scattered(jnp.where(here[..., None], table.at[rows].get(mode="promise_in_bounds"), 0))


def head(x: jax.Array, scale: jax.Array, table: jax.Array, targets: jax.Array) -> jax.Array:
    """A part of the loss of all targets (B, T): each device has the logits of its tokens of the vocabulary. They are so
    small that the exponentials need no maximum."""
    logits = whole(norm(x, whole(scale))) @ table.T
    total = jax.lax.psum(jnp.sum(jnp.exp(logits), -1), "data")
    rows, here = own(targets, len(table))
    right = jnp.take_along_axis(logits, rows[..., None], -1, mode="promise_in_bounds")[..., 0]
    return jnp.sum(jnp.log(total)) / jax.lax.axis_size("data") - jnp.sum(jnp.where(here, right, 0))


@jax.checkpoint
def block(x: jax.Array, parts: Mapping[str, jax.Array]) -> jax.Array:
    """One block, on rows (b, T, D)."""
    p = {name: whole(part) for name, part in parts.items()}
    x = x + attention(norm(x, p["norm1"]), p["q"], p["k"], p["v"], p["o"], HEADS)
    return x + mlp(norm(x, p["norm2"]), p["gate"], p["up"], p["down"])


def loss_of_rows(parameters: Mapping[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """The device's part of the loss."""
    tokens = jax.lax.all_gather(tokens, "data", tiled=True)
    x = embedded(parameters["embed"], tokens[:, :-1])
    for i in range(BLOCKS):
        x = block(x, {name: parameters[f"blocks.{i}.{name}"] for name in OF_A_BLOCK})
    return head(x, parameters["norm"], parameters["embed"], tokens[:, 1:]) / TARGETS


def step(parameters: Mapping[str, jax.Array], tokens: jax.Array, mesh: Mesh) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The mean loss before the step, and the parameters after it. All arrays are split over `data` along their first
    axis."""

    def on_one_device(parts: Mapping[str, jax.Array], rows: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        loss, gradients = jax.value_and_grad(loss_of_rows)(parts, rows)
        return jax.lax.psum(loss, "data"), {name: part - RATE * gradients[name] for name, part in parts.items()}

    split = PartitionSpec("data")
    run = jax.shard_map(
        on_one_device, mesh=mesh, in_specs=(split, split), out_specs=(PartitionSpec(), split), check_vma=False
    )
    return run(parameters, tokens)
