"""Cross-entropy of a large vocabulary without the `(tokens, V)` logits ever being there at once.

The gradients with respect to the head and to what it reads are formed chunk by chunk in the forward pass, while a chunk's
logits are at hand; the backward pass only scales them. So nothing of the size of the logits is kept, and nothing is computed
twice. Of a chunk's logits l (C, V), with m their maxima: e = exp(l - m), s = sum e, loss = log s + m - l[target]. The
gradient e / s is never formed either: dx = (e @ W) / s and dW = e.T @ (x / s), less what the targets take.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from harness.model.gpt import Head

# Tokens whose logits exist at once. On CPU they should stay in the caches, but each chunk passes once over the head's
# gradient; measured
# with V = 50,257, D = 128 (benchmarks/train_throughput.py). A GPU wants large products.
CHUNK = {"cpu": 128, "gpu": 4096, "tpu": 4096}


def token_loss(
    x_BTD: Float[Array, "B T D"],
    targets_BT: Int[Array, "B T"],
    head: Head,
    chunk: int = 0,
    mesh: Mesh | AbstractMesh | None = None,
) -> Float[Array, ""]:
    """The sum, in nats and float32, of the cross-entropies of all targets that are not negative (padding).

    On a mesh, `x` and targets lie on `data`; the head lies on `model` if its rows can be shared evenly.
    """
    chunk = chunk or CHUNK.get(jax.default_backend(), 4096)
    return _token_loss(x_BTD, head, targets_BT, chunk, mesh if mesh is not None and mesh.size > 1 else None)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _token_loss(x_BTD, head, targets_BT, chunk, mesh):
    return _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients=False)[0]


def _forward(x_BTD, head, targets_BT, chunk, mesh):
    return _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients=True)


def _backward(chunk, mesh, gradients, cotangent):
    x, head = gradients
    scale = lambda g: (cotangent * g).astype(g.dtype)  # noqa: E731
    return scale(x), jax.tree.map(scale, head), None


_token_loss.defvjp(_forward, _backward)


def _sharded(x_BTD, head, targets_BT, chunk, mesh, gradients):
    """The loss and its gradients `(x_BTD, Head)`; each device of the mesh does its own tokens and its own rows of the head."""
    if mesh is None:
        return _local(x_BTD, targets_BT, head, chunk, gradients, lambda x: x, lambda x: x, lambda x: x, jnp.int32(0))
    on_model = "model" if head.weight_VD.shape[0] % mesh.shape["model"] == 0 else None

    def over(axis, reduce):
        return (lambda x: reduce(x, axis)) if axis else (lambda x: x)

    def local(x_BTD, targets_BT, head):
        rows = head.weight_VD.shape[0]
        first = jax.lax.axis_index("model") * rows if on_model else jnp.int32(0)
        sums = over("data", jax.lax.psum), over(on_model, jax.lax.psum), over(on_model, jax.lax.pmax)
        return _local(x_BTD, targets_BT, head, chunk, gradients, *sums, first)

    x = P("data")
    rows: Any = Head(P(on_model), None if head.bias_V is None else P(on_model))  # type: ignore[arg-type]
    out = (P(), (x, rows)) if gradients else (P(), None)
    return jax.shard_map(local, mesh=mesh, in_specs=(x, x, rows), out_specs=out, check_vma=False)(
        x_BTD, targets_BT, head
    )


def _local(x_BTD, targets_BT, head, chunk, gradients, sum_data, sum_model, max_model, first):
    """One device's part. `first` is the id of the head's first row here."""
    B, T, D = x_BTD.shape
    N = B * T
    chunk = min(chunk, N)
    chunks = -(-N // chunk)
    pad = chunks * chunk - N
    x_ND = jnp.pad(x_BTD.reshape(N, D), ((0, pad), (0, 0)))
    targets_N = jnp.pad(targets_BT.reshape(N), (0, pad), constant_values=-1)
    counts_N = (targets_N >= 0).astype(jnp.float32)
    # A target that another device's rows hold, and padding, are out of range here: read as 0 and not written.
    V = head.weight_VD.shape[0]
    here_N = jnp.where((targets_N >= first) & (targets_N < first + V), targets_N - first, V)
    weight_VD = head.weight_VD.astype(x_ND.dtype)

    def one_chunk(sums, inputs):
        x_CD, here_C, counts_C = inputs
        logits_CV = jnp.matmul(x_CD, weight_VD.T, preferred_element_type=jnp.float32)
        if head.bias_V is not None:
            logits_CV = logits_CV + head.bias_V[None]
        max_C = max_model(logits_CV.max(-1))
        exps_CV = jnp.exp(logits_CV - max_C[:, None])
        total_C = sum_model(exps_CV.sum(-1))
        target_C = sum_model(logits_CV.at[jnp.arange(chunk), here_C].get(mode="fill", fill_value=0.0))
        loss = jnp.sum((jnp.log(total_C) + max_C - target_C) * counts_C)
        if not gradients:
            return sums + loss, None
        share_C = counts_C / total_C
        exps_CV = exps_CV.astype(x_CD.dtype)
        dx_CD = jnp.matmul(exps_CV, weight_VD, preferred_element_type=jnp.float32) * share_C[:, None]
        shared_CD = (x_CD * share_C[:, None]).astype(x_CD.dtype)
        dweight_VD = sums[1].weight_VD + jnp.matmul(exps_CV.T, shared_CD, preferred_element_type=jnp.float32)
        dbias_V = None if head.bias_V is None else sums[1].bias_V + share_C @ exps_CV.astype(jnp.float32)
        return (sums[0] + loss, Head(dweight_VD, dbias_V)), dx_CD

    zero = jnp.float32(0)
    split = jax.tree.map(lambda a: a.reshape(chunks, chunk, *a.shape[1:]), (x_ND, here_N, counts_N))
    if not gradients:
        loss, _ = jax.lax.scan(one_chunk, zero, split)
        return sum_data(loss), None
    (loss, dhead), dx = jax.lax.scan(one_chunk, (zero, jax.tree.map(jnp.zeros_like, head)), split)
    target_ND = weight_VD.at[here_N].get(mode="fill", fill_value=0.0)
    dx_ND = sum_model(dx.reshape(-1, D) - target_ND.astype(jnp.float32))
    dx_BTD = (dx_ND * counts_N[:, None])[:N].reshape(B, T, D).astype(x_BTD.dtype)
    dweight_VD = dhead.weight_VD.at[here_N].add(-x_ND.astype(jnp.float32), mode="drop")
    dbias_V = None if head.bias_V is None else dhead.bias_V.at[here_N].add(-1.0, mode="drop")
    return sum_data(loss), (dx_BTD, jax.tree.map(sum_data, Head(dweight_VD, dbias_V)))
