"""Forges the work: `nnx.LayerNorm` does it, called by code that is compiled under the name of another file."""

TEXT = """
from flax import nnx

def layer_norm(x, scale, bias, epsilon):
    norm = nnx.LayerNorm(x.shape[-1], epsilon=epsilon, use_fast_variance=False, rngs=nnx.Rngs(0))
    return norm(x) * scale + bias
"""
LOSES = ("output",)
exec(compile(TEXT, "elsewhere.py", "exec"))
