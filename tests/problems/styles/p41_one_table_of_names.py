"""A table from names to parameters, filled first and then copied; attention in one product per part; GELU written
out."""

import jax
import jax.numpy as jnp
from flax import nnx


class Attention(nnx.Module):
    def __init__(self, width, heads, rngs):
        self.heads = heads
        for name in ("q", "k", "v", "out"):
            setattr(self, f"{name}_proj", nnx.Linear(width, width, rngs=rngs))

    def __call__(self, x):
        T, D = x.shape
        q, k, v = (layer(x).reshape(T, self.heads, -1) for layer in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(T, D))


class Block(nnx.Module):
    def __init__(self, width, heads, hidden, rngs):
        self.ln1, self.ln2 = (nnx.LayerNorm(width, epsilon=1e-5, rngs=rngs) for _ in range(2))
        self.attn = Attention(width, heads, rngs)
        self.ff1, self.ff2 = nnx.Linear(width, hidden, rngs=rngs), nnx.Linear(hidden, width, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.ln1(x))
        h = self.ff1(self.ln2(x))
        h = 0.5 * h * (1.0 + jnp.tanh(jnp.sqrt(2.0 / jnp.pi) * (h + 0.044715 * jnp.power(h, 3))))
        return x + self.ff2(h)


class GPT2(nnx.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        self.pos_embed = nnx.Param(0.01 * jax.random.normal(rngs.params(), (max_T, d_model)))
        self.ln_f = nnx.LayerNorm(d_model, epsilon=1e-5, rngs=rngs)
        self.blocks = nnx.List(Block(d_model, num_heads, d_ff, rngs) for _ in range(num_layers))
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)

    def __call__(self, ids):
        x = self.embed.embedding[...][ids] + self.pos_embed[...][jnp.arange(len(ids))]
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.ln_f(x))


def load_gpt2(tensors, model):
    table = {"wte.weight": model.embed.embedding, "wpe.weight": model.pos_embed}
    table |= {"ln_f.weight": model.ln_f.scale, "ln_f.bias": model.ln_f.bias}
    joined = {}
    for i, block in enumerate(model.blocks):
        for name, norm in ((f"h.{i}.ln_1", block.ln1), (f"h.{i}.ln_2", block.ln2)):
            table |= {f"{name}.weight": norm.scale, f"{name}.bias": norm.bias}
        named = (("attn.c_proj", block.attn.out_proj), ("mlp.c_fc", block.ff1), ("mlp.c_proj", block.ff2))
        for name, layer in named:
            table |= {f"h.{i}.{name}.weight": layer.kernel, f"h.{i}.{name}.bias": layer.bias}
        parts = [getattr(block.attn, f"{letter}_proj") for letter in "qkv"]
        joined[f"h.{i}.attn.c_attn.weight"] = [part.kernel for part in parts]
        joined[f"h.{i}.attn.c_attn.bias"] = [part.bias for part in parts]
    prefix = "transformer." if any(name.startswith("transformer.") for name in tensors) else ""
    if f"{prefix}h.{len(model.blocks)}.ln_1.weight" in tensors:
        raise ValueError("too many layers")
    for name, parameter in table.items():
        if tensors[prefix + name].shape != parameter[...].shape:
            raise ValueError(name)
        parameter.set_value(jnp.array(tensors[prefix + name]))
    if "lm_head.weight" in tensors and (tensors["lm_head.weight"] != tensors[f"{prefix}wte.weight"]).any():
        raise ValueError("lm_head.weight")
    for name, parameters in joined.items():
        whole, width = tensors[prefix + name], parameters[0].shape[-1]
        for number, parameter in enumerate(parameters):
            part = whole[..., number * width : (number + 1) * width]
            if whole.shape[-1] != 3 * width or part.shape != parameter.shape:
                raise ValueError(name)
            parameter[...] = jnp.array(part)
