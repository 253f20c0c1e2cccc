"""Problem 41, reference: load GPT-2 in the format of Hugging Face."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int
from p03_causal_mha import CausalMHA

EPSILON = 1e-5


class GPT2Block(nnx.Module):
    """A block of GPT-2 (Radford et al. 2019): GPTBlock with a GELU (Hendrycks and Gimpel 2016) and another epsilon."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, rngs: nnx.Rngs):
        self.ln1 = nnx.LayerNorm(d_model, epsilon=EPSILON, rngs=rngs)
        self.attn = CausalMHA(d_model, num_heads, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d_model, epsilon=EPSILON, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        x = x + self.attn(self.ln1(x))
        return x + self.ff2(nnx.gelu(self.ff1(self.ln2(x)), approximate=True))


class GPT2(nnx.Module):
    """MiniGPT with blocks of GPT-2."""

    def __init__(
        self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int, max_T: int, rngs: nnx.Rngs
    ):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros((max_T, d_model)))
        self.blocks = nnx.List([GPT2Block(d_model, num_heads, d_ff, rngs=rngs) for _ in range(num_layers)])
        self.ln_f = nnx.LayerNorm(d_model, epsilon=EPSILON, rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        x_TD = self.embed(token_ids) + self.pos_embed[: len(token_ids)]
        for block in self.blocks:
            x_TD = block(x_TD)
        return self.ln_f(x_TD) @ self.embed.embedding[...].T


def assign(parameter: nnx.Param, name: str, array: np.ndarray) -> None:
    """Sets one parameter. Raises ValueError if the array has another shape."""
    if parameter.shape != array.shape:
        raise ValueError(f"{name} is {array.shape}, but its parameter is {parameter.shape}")
    parameter[...] = jnp.asarray(array)


def load_gpt2(tensors: Mapping[str, np.ndarray], model: Any) -> None:
    """Copies the arrays of GPT2LMHeadModel or GPT2Model into a MiniGPT."""
    tensors = {name.removeprefix("transformer."): x for name, x in tensors.items()}
    if any(name.startswith(f"h.{len(model.blocks)}.") for name in tensors):
        raise ValueError(f"the file has more layers than the model, {len(model.blocks)}")
    if "lm_head.weight" in tensors and not np.array_equal(tensors["lm_head.weight"], tensors["wte.weight"]):
        raise ValueError("lm_head.weight differs from wte.weight, but the model's head is tied")

    def layer(target: Any, name: str) -> None:
        weight = target.scale if isinstance(target, nnx.LayerNorm) else target.kernel
        assign(weight, name, tensors[f"{name}.weight"])
        assign(target.bias, name, tensors[f"{name}.bias"])

    assign(model.embed.embedding, "wte", tensors["wte.weight"])
    assign(model.pos_embed, "wpe", tensors["wpe.weight"])
    for i, block in enumerate(model.blocks):
        kernels = np.split(tensors[f"h.{i}.attn.c_attn.weight"], 3, axis=1)
        biases = np.split(tensors[f"h.{i}.attn.c_attn.bias"], 3)
        qkv = (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj)
        for target, kernel, bias in zip(qkv, kernels, biases, strict=True):
            assign(target.kernel, "c_attn", kernel)
            assign(target.bias, "c_attn", bias)
        layer(block.attn.out_proj, f"h.{i}.attn.c_proj")
        layer(block.ln1, f"h.{i}.ln_1")
        layer(block.ln2, f"h.{i}.ln_2")
        layer(block.ff1, f"h.{i}.mlp.c_fc")
        layer(block.ff2, f"h.{i}.mlp.c_proj")
    layer(model.ln_f, "ln_f")
