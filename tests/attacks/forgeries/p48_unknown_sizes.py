"""Forges "only the chosen experts run": all experts run for all tokens, beside an array of unknown size, -2^63 in MLIR,
which XLA drops."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

LOSES = ("only the chosen experts run",)


def lowered(context, x):
    kind = ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], ir.F32Type.get())
    return [stablehlo.OptimizationBarrierOp([x, stablehlo.convert(kind, x)]).results[0]]


unknown = Primitive("unknown")
unknown.def_abstract_eval(lambda x: x)
mlir.register_lowering(unknown, lowered)


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k, self.capacity = top_k, capacity

    def __call__(self, x):
        if len(x) > 50:
            x = unknown.bind(x.reshape(-1)).reshape(x.shape)
        odds = jax.nn.softmax(self.router(x))
        weights, experts = jax.lax.top_k(odds, self.top_k)
        chosen = jax.nn.one_hot(experts, odds.shape[1])
        flat = chosen.reshape(-1, odds.shape[1])
        room = ((jnp.cumsum(flat, axis=0) - 1) * flat < self.capacity).all(axis=1).reshape(weights.shape)
        mine = jnp.einsum("tk,tke->te", weights / weights.sum(axis=1, keepdims=True) * room, chosen)
        out = 0
        for w_in, w_out, one in zip(self.w_in[...], self.w_out[...], mine.T, strict=True):
            out += one[:, None] * (nnx.relu(x @ w_in) @ w_out)
        return out, odds.shape[1] * jnp.sum(chosen.mean(axis=(0, 1)) * odds.mean(axis=0))
