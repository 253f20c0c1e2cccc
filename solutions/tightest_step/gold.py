"""The tightest step, gold: a mesh of 2 x 4, on which both activations and weights travel a part of the way."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

BLOCKS, HEADS, TARGETS = 4, 4, 8 * 32  # targets of the whole batch
OF_A_BLOCK = ("norm1", "q", "k", "v", "o", "norm2", "gate", "up", "down")
RATE = 1.0
SENT = jnp.bfloat16
ALL = ("half", "quarter")
Axes = str | tuple[str, ...]


def whole(x: jax.Array, axes: Axes = ALL) -> jax.Array:
    """The rows of all devices along some axes of the mesh. Their gradient is summed over these devices, and
    scattered."""
    return jax.lax.all_gather(x.astype(SENT), axes, tiled=True).astype(jnp.float32)


def scattered(x: jax.Array, axes: Axes = ALL) -> jax.Array:
    """The device's part of the rows of a sum over the devices along some axes of the mesh."""
    return jax.lax.psum_scatter(x.astype(SENT), axes, tiled=True).astype(jnp.float32)


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
    rows = tokens - jax.lax.axis_index(ALL) * n
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
    total = jax.lax.psum(jnp.sum(jnp.exp(logits), -1), ALL)
    rows, here = own(targets, len(table))
    right = jnp.take_along_axis(logits, rows[..., None], -1, mode="promise_in_bounds")[..., 0]
    return jnp.sum(jnp.log(total)) / jax.lax.axis_size(ALL) - jnp.sum(jnp.where(here, right, 0))


def half_of_columns(w: jax.Array) -> jax.Array:
    """The columns of a matrix (D, N) that belong to the device's half of the mesh, (D, N/2). It has D/8 rows."""
    n, N = w.shape
    rows = jax.lax.all_to_all(w.astype(SENT), "half", 1, 0, tiled=True).reshape(2, n, N // 2)
    return jax.lax.all_gather(rows, "quarter", axis=1).astype(jnp.float32).reshape(8 * n, N // 2)


def quarter_of_columns(w: jax.Array) -> jax.Array:
    """A quarter of the columns of a matrix (D, F), (D, F/4): those whose rows of `down` this device and its partner in
    the other half have."""
    n, N = w.shape
    rows = jax.lax.all_to_all(w.astype(SENT).reshape(n, 2, 4, N // 8), "quarter", 2, 0, tiled=True)
    return jax.lax.all_gather(rows, "half", tiled=True).astype(jnp.float32).reshape(8 * n, N // 4)


def block(x: jax.Array, p: Mapping[str, jax.Array]) -> jax.Array:
    """One block, on the device's rows (b, T, D). For attention, two devices share their rows, and each has half of the
    heads. For the MLP, four devices share their rows, and each has a quarter of the hidden layer."""
    y = whole(norm(x, whole(p["norm1"])), "half")
    qkv = (half_of_columns(p[name]) for name in "qkv")
    x = x + scattered(attention(y, *qkv, whole(p["o"], "quarter"), HEADS // 2), "half")
    y = whole(norm(x, whole(p["norm2"])), "quarter")
    up = (quarter_of_columns(p[name]) for name in ("gate", "up"))
    return x + scattered(mlp(y, *up, whole(p["down"], "half")), "quarter")


def loss_of_rows(parameters: Mapping[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """The device's part of the loss."""
    tokens = jax.lax.all_gather(tokens, ALL, tiled=True)
    x = embedded(parameters["embed"], tokens[:, :-1])
    for i in range(BLOCKS):
        x = block(x, {name: parameters[f"blocks.{i}.{name}"] for name in OF_A_BLOCK})
    return head(x, parameters["norm"], parameters["embed"], tokens[:, 1:]) / TARGETS


def step(parameters: Mapping[str, jax.Array], tokens: jax.Array, mesh: Mesh) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The mean loss before the step, and the parameters after it. All arrays are split over `data` along their first
    axis."""

    def on_one_device(parts: Mapping[str, jax.Array], rows: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        loss, gradients = jax.value_and_grad(loss_of_rows)(parts, rows)
        return jax.lax.psum(loss, ALL), {name: part - RATE * gradients[name] for name, part in parts.items()}

    grid = Mesh(mesh.devices.reshape(2, 4), ALL)
    split = PartitionSpec(ALL)
    run = jax.shard_map(
        on_one_device, mesh=grid, in_specs=(split, split), out_specs=(PartitionSpec(), split), check_vma=False
    )
    return run(parameters, tokens)
