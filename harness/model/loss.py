"""Cross-entropy over a large vocabulary that never holds all `(tokens, V)` logits at once.

The forward pass computes the gradients of the head and of its input chunk by chunk, while the logits of a chunk exist.
The backward pass only scales them, so nothing of the size of the logits is stored and nothing is computed twice.

For the logits l (C, V) of a chunk with row maxima m: e = exp(l - m), s = sum e, loss = log s + m - l[target]. The
softmax e / s is never formed: with s subtracted from e at each target, dx = (e @ W) / s and dW = e.T @ (x / s). The
subtraction comes before the rounding to bfloat16: once the model is nearly sure, what is left at a target is far
smaller than e and s.
"""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from harness.model.layers import Head, project

# Tokens whose logits exist at once. On a CPU, each chunk adds a pass over the head's gradient, and larger ones take
# more memory: for V = 50,257 and D = 128, 256 takes 3% longer than 512 (benchmarks/train_throughput.py). GPUs and TPUs
# need large products.
CPU_CHUNK = 256
CHUNK = 4096  # elsewhere, where the memory is not known to be the same for all, and where several such arrays exist
MEMORY_SHARE = 12  # of a device's memory, logits take one part in so many at most
ONE_PASS = frozenset({"gpu", "tpu"})  # where reading the logits again takes longer than the arithmetic of one pass


@jax.named_scope("loss")
def token_loss(
    x_BTD: Float[Array, "B T D"],
    targets_BT: Int[Array, "B T"],
    head: Head,
    chunk: int = 0,
    mesh: Mesh | AbstractMesh | None = None,
) -> Float[Array, ""]:
    """The sum of the cross-entropies of all targets, in nats, as float32. Negative targets are padding and do not
    count.

    On a mesh, `x` and the targets are sharded over `data`. The head is sharded over `model` if that divides its rows.
    """
    chunk = chunk or _chunk(head.weight_VD.shape[0])
    return _token_loss(x_BTD, head, targets_BT, chunk, mesh if mesh is not None and mesh.size > 1 else None)


def _chunk(rows: int) -> int:
    """Tokens whose logits exist at once on this device, for a head of so many rows."""
    if jax.default_backend() == "cpu":
        return CPU_CHUNK
    memory = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    # All processes must run one program, and their devices may differ.
    return chunk_in(memory, rows) if memory and jax.process_count() == 1 else CHUNK


def chunk_in(memory: int, rows: int) -> int:
    """The largest power of two of tokens whose logits take a twelfth of so many bytes at most, and at least 256."""
    return max(1 << max(memory // (MEMORY_SHARE * 4 * rows), 1).bit_length() - 1, 256)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _token_loss(x_BTD, head, targets_BT, chunk, mesh):
    return _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients=False)[0]


def _forward(x_BTD, head, targets_BT, chunk, mesh):
    return _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients=True)


def _backward(chunk, mesh, gradients, cotangent):
    x, head = gradients
    scale = lambda g: (cotangent * g.astype(jnp.float32)).astype(g.dtype)  # noqa: E731
    return scale(x), jax.tree.map(scale, head), None


_token_loss.defvjp(_forward, _backward)


def _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients):
    """The loss and its gradients `(x_BTD, Head)`. Each device computes its own tokens and its own rows of the head."""
    padded = head.weight_VD.shape[0] > head.vocab_size
    if mesh is None:
        same = (lambda x: x,) * 3
        return _local(x_BTD, targets_BT, head, chunk, gradients, padded, *same, jnp.int32(0))
    rows_on = mesh.axis_names[:-1]
    on_model = "model" if head.weight_VD.shape[0] % mesh.shape["model"] == 0 else None

    def over(axis, reduce):
        return (lambda x: reduce(x, axis)) if axis else (lambda x: x)

    def local(x_BTD, targets_BT, head):
        rows = head.weight_VD.shape[0]
        first = jax.lax.axis_index("model") * rows if on_model else jnp.int32(0)
        sums = over(rows_on, jax.lax.psum), over(on_model, jax.lax.psum), over(on_model, jax.lax.pmax)
        return _local(x_BTD, targets_BT, head, chunk, gradients, padded, *sums, first)

    x = P(rows_on)
    rows = replace(head, weight_VD=P(on_model), bias_V=None if head.bias_V is None else P(on_model))
    out = (P(), (x, rows)) if gradients else (P(), None)
    return jax.shard_map(local, mesh=mesh, in_specs=(x, x, rows), out_specs=out, check_vma=False)(
        x_BTD, targets_BT, head
    )


def _local(x_BTD, targets_BT, head, chunk, gradients, padded, sum_data, sum_model, max_model, first):
    """The share of one device. `first` is the token id of its first row of the head, which may be padding if
    `padded`."""
    B, T, D = x_BTD.shape
    N = B * T
    chunk = min(chunk, N)
    chunks = -(-N // chunk)
    pad = chunks * chunk - N
    x_ND = jnp.pad(x_BTD.reshape(N, D), ((0, pad), (0, 0)))
    targets_N = jnp.pad(targets_BT.reshape(N), (0, pad), constant_values=-1)
    counts_N = (targets_N >= 0).astype(jnp.float32)
    # Padding, and targets whose row is on another device, become the index V: reads give 0, writes are dropped.
    V = head.weight_VD.shape[0]
    row_N = jnp.where((targets_N >= first) & (targets_N < first + V), targets_N - first, V)
    weight_VD = head.weight_VD.astype(x_ND.dtype)
    bias_V = head.bias_V
    if padded:
        bias_V = jnp.where(
            first + jnp.arange(V) < head.vocab_size, jnp.zeros(V) if bias_V is None else bias_V, -jnp.inf
        )
    # On a CPU, a bias is one more column of the weights, of an input of 1: adding it and summing its gradient would
    # each read the logits again.
    is_column = bias_V is not None and x_ND.dtype == jnp.float32 and jax.default_backend() == "cpu"
    x_NE, weight_VE = x_ND, weight_VD
    if is_column:
        x_NE = jnp.concatenate([x_ND, jnp.ones((len(x_ND), 1))], axis=1)
        weight_VE, bias_V = jnp.concatenate([weight_VD, bias_V[:, None]], axis=1), None

    def one_chunk(sums, inputs):
        x_CE, xT_EC, row_C, counts_C = inputs
        logits_CV = jnp.matmul(x_CE, weight_VE.T, preferred_element_type=jnp.float32)
        if bias_V is not None:
            logits_CV = logits_CV + bias_V[None]
        own_max_C, own_total_C = _max_and_total(logits_CV)
        max_C = max_model(own_max_C)
        total_C = sum_model(own_total_C * jnp.exp(own_max_C - max_C))
        if is_column:  # Nothing reads the logits after their exponentials, so these take their place in memory.
            own_target_C = jnp.sum(x_CE * weight_VE.at[row_C].get(mode="fill", fill_value=0.0), axis=1)
        else:
            own_target_C = logits_CV.at[jnp.arange(chunk), row_C].get(mode="fill", fill_value=0.0)
        target_C = sum_model(own_target_C)
        loss = jnp.sum((jnp.log(total_C) + max_C - target_C) * counts_C)
        if not gradients:
            return sums + loss, None
        exps_CV = jnp.exp(logits_CV - max_C[:, None])
        scale_C = counts_C / total_C
        slopes_CV = jnp.where(jnp.arange(V)[None] == row_C[:, None], exps_CV - total_C[:, None], exps_CV)
        loss_sum, dweight_EV, dbias_V = sums
        dbias_V = None if dbias_V is None else dbias_V + scale_C @ slopes_CV
        slopes_CV = slopes_CV.astype(x_CE.dtype)
        dx_CD = jnp.matmul(slopes_CV, weight_VD, preferred_element_type=jnp.float32) * scale_C[:, None]
        scaled_EC = (xT_EC.astype(jnp.float32) * scale_C[None]).astype(x_CE.dtype)
        # Transposing the slopes, or their product, in each chunk would take longer than transposing the sum.
        dweight_EV = dweight_EV + jnp.matmul(scaled_EC, slopes_CV, preferred_element_type=jnp.float32)
        return (loss_sum + loss, dweight_EV, dbias_V), dx_CD

    zero = jnp.float32(0)
    x_GCE, row_GC, counts_GC = (a.reshape(chunks, chunk, *a.shape[1:]) for a in (x_NE, row_N, counts_N))
    # For the head's gradient: XLA's fast product of matrices on a CPU needs the first one as it is, not transposed.
    xT_GEC = x_GCE.swapaxes(1, 2) if gradients else None
    split = x_GCE, xT_GEC, row_GC, counts_GC
    if not gradients:
        loss, _ = jax.lax.scan(one_chunk, zero, split)
        return sum_data(loss), None
    dbias_V = None if is_column else jax.tree.map(jnp.zeros_like, head.bias_V)
    zeros = zero, jnp.zeros_like(weight_VE.T, head.weight_VD.dtype), dbias_V
    (loss, dweight_EV, dbias_V), dx = jax.lax.scan(one_chunk, zeros, split)
    if is_column and head.bias_V is not None:
        dbias_V = dweight_EV[D]
    dhead = replace(head, weight_VD=dweight_EV[:D].T, bias_V=dbias_V)
    dx_BTD = sum_model(dx.reshape(-1, D))[:N].reshape(B, T, D).astype(x_BTD.dtype)
    return sum_data(loss), (dx_BTD, jax.tree.map(sum_data, dhead))


def _max_and_total(logits_CV: Float[Array, "C V"]) -> tuple[Array, Array]:
    """The maximum m (C,) of each row, and the sum (C,) of exp(l - m): in one pass (Milakov and Gimelshein 2018) or two.

    The maximum of a device that has only padding is the lowest finite number, since infinities have no difference.
    """
    lowest = float(jnp.finfo(jnp.float32).min)
    if jax.default_backend() not in ONE_PASS:
        max_C = logits_CV.max(-1, initial=lowest)
        return max_C, jnp.exp(logits_CV - max_C[:, None]).sum(-1)

    def joined(one, other):
        (max_one, total_one), (max_other, total_other) = one, other
        ratio = jnp.exp(-jnp.abs(max_one - max_other))
        larger = max_one >= max_other
        total = jnp.where(larger, total_one + total_other * ratio, total_one * ratio + total_other)
        return jnp.where(larger, max_one, max_other), total

    parts = jnp.maximum(logits_CV, lowest), jnp.ones_like(logits_CV)
    return jax.lax.reduce(parts, (jnp.float32(lowest), jnp.float32(0)), joined, (1,))


def token_log_probabilities(
    x_BTD: Float[Array, "B T D"], targets_BT: Int[Array, "B T"], head: Head, chunk: int = 0
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """The log-probability of each target, and the entropy of the distribution that it comes from, in nats, as float32.

    The backward pass computes the logits of a chunk again. Negative targets are padding, whose values mean nothing.
    """
    B, T, _ = x_BTD.shape
    positions = max(
        (chunk or (CPU_CHUNK if jax.default_backend() == "cpu" else CHUNK)) // B, 1
    )  # chunks of positions keep rows on their device
    pad = -T % positions

    @jax.checkpoint
    def one_chunk(inputs):
        x_BCD, targets_BC = inputs
        return scores(project(x_BCD, head), targets_BC)

    def split(a: Array) -> Array:
        padded = jnp.pad(a, ((0, 0), (0, pad), *((0, 0),) * (a.ndim - 2)))
        return jnp.moveaxis(padded.reshape(B, -1, positions, *a.shape[2:]), 1, 0)

    log_probabilities, entropies = jax.lax.map(one_chunk, (split(x_BTD), split(targets_BT)))
    join = lambda a_NBC: jnp.moveaxis(a_NBC, 0, 1).reshape(B, -1)[:, :T]  # noqa: E731
    return join(log_probabilities), join(entropies)


def scores(
    logits_BTV: Float[Array, "B T V"], targets_BT: Int[Array, "B T"]
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """The same log-probabilities and entropies, from all logits."""
    all_BTV = jax.nn.log_softmax(logits_BTV)
    chosen_BT1 = jnp.take_along_axis(all_BTV, jnp.maximum(targets_BT, 0)[..., None], axis=-1)
    return chosen_BT1[..., 0], -jnp.sum(jnp.exp(all_BTV) * all_BTV, axis=-1)
