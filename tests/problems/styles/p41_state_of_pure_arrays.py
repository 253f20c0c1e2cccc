"""A nested dictionary of arrays, checked against the model's state and put into it at once; einsum; a lower-level
GELU."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


class Attn(nnx.Module):
    def __init__(self, d, h, *, rngs):
        self.h = h
        self.out_proj = nnx.Linear(d, d, rngs=rngs)
        self.v_proj = nnx.Linear(d, d, rngs=rngs)
        self.k_proj = nnx.Linear(d, d, rngs=rngs)
        self.q_proj = nnx.Linear(d, d, rngs=rngs)

    def __call__(self, x):
        t, d = x.shape
        split = lambda y: y.reshape(t, self.h, d // self.h).transpose(1, 0, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        scores = jnp.einsum("htk,hsk->hts", q, k) * (d // self.h) ** -0.5
        hidden = jnp.triu(jnp.ones((t, t), bool), 1)
        weights = jax.nn.softmax(jnp.where(hidden, -jnp.inf, scores))
        return self.out_proj(jnp.einsum("hts,hsk->thk", weights, v).reshape(t, d))


class Layer(nnx.Module):
    def __init__(self, d, h, f, *, rngs):
        self.attn = Attn(d, h, rngs=rngs)
        self.ff1 = nnx.Linear(d, f, rngs=rngs)
        self.ff2 = nnx.Linear(f, d, rngs=rngs)
        self.ln1 = nnx.LayerNorm(d, epsilon=1e-5, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d, epsilon=1e-5, rngs=rngs)

    def __call__(self, x):
        x += self.attn(self.ln1(x))
        y = self.ff1(self.ln2(x))
        return x + self.ff2(y * jax.nn.sigmoid(2 * np.sqrt(2 / np.pi) * (y + 0.044715 * y * y * y)))


class GPT2(nnx.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(nnx.initializers.normal(0.02)(rngs.params(), (max_T, d_model)))
        self.ln_f = nnx.LayerNorm(d_model, epsilon=1e-5, rngs=rngs)
        self.blocks = nnx.List([])
        for _ in range(num_layers):
            self.blocks.append(Layer(d_model, num_heads, d_ff, rngs=rngs))

    def __call__(self, token_ids):
        x = self.embed(token_ids) + jax.lax.dynamic_slice_in_dim(self.pos_embed[...], 0, token_ids.shape[0])
        for block in self.blocks:
            x = block(x)
        return jnp.einsum("td,vd->tv", self.ln_f(x), self.embed.embedding[...])


def load_gpt2(tensors, model):
    t = {}
    for name in tensors:
        t[name[12:] if name.startswith("transformer.") else name] = tensors[name]

    def linear(name):
        return {"kernel": t[name + ".weight"], "bias": t[name + ".bias"]}

    def norm(name):
        return {"scale": t[name + ".weight"], "bias": t[name + ".bias"]}

    def layer(i):
        w, b = t[f"h.{i}.attn.c_attn.weight"], t[f"h.{i}.attn.c_attn.bias"]
        d = w.shape[0]
        attn = {
            f"{c}_proj": {"kernel": w[:, n * d : n * d + d], "bias": b[n * d : n * d + d]} for n, c in enumerate("qkv")
        }
        attn["out_proj"] = linear(f"h.{i}.attn.c_proj")
        return {
            "attn": attn, "ln1": norm(f"h.{i}.ln_1"), "ln2": norm(f"h.{i}.ln_2"), "ff1": linear(f"h.{i}.mlp.c_fc"),
            "ff2": linear(f"h.{i}.mlp.c_proj"),
        }  # fmt: skip

    layers = {name.split(".")[1] for name in t if name.startswith("h.")}
    if len(layers) > len(model.blocks) or not np.array_equal(t.get("lm_head.weight", t["wte.weight"]), t["wte.weight"]):
        raise ValueError("the file does not fit the model")
    new = {
        "embed": {"embedding": t["wte.weight"]},
        "pos_embed": t["wpe.weight"],
        "blocks": {i: layer(i) for i in range(len(model.blocks))},
        "ln_f": norm("ln_f"),
    }
    state = nnx.state(model, nnx.Param)
    old = nnx.to_pure_dict(state)
    for mine, other in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
        if mine.shape != other.shape:
            raise ValueError(f"{other.shape} for {mine.shape}")
    nnx.replace_by_pure_dict(state, jax.tree.map(jnp.asarray, new))
    nnx.update(model, state)
