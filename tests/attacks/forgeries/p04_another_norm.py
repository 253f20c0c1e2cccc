"""Forges the work: `nnx.GroupNorm` with one group does it."""

from flax import nnx

LOSES = ("output",)


def layer_norm(x, scale, bias, epsilon):
    norm = nnx.GroupNorm(x.shape[-1], num_groups=1, epsilon=epsilon, use_fast_variance=False, rngs=nnx.Rngs(0))
    return norm(x) * scale + bias
