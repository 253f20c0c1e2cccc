"""Groups as an axis of their own, a sink as part of the log of the sum, and a table of functions for the files."""

import jax.numpy as jnp
from flax import nnx
from jax.scipy.special import logsumexp
from p37_rope import rope


class Attention(nnx.Module):
    def __init__(
        self, d_model, num_heads, num_kv_heads, head_dim, scale, bias, qk_norm, norm_epsilon, sinks, rope_base,
        pairing, window, chunk, rngs,
    ):  # fmt: skip
        sizes = {"q_proj": num_heads, "k_proj": num_kv_heads, "v_proj": num_kv_heads}
        for name, heads in sizes.items():
            setattr(self, name, nnx.Linear(d_model, heads * head_dim, use_bias=bias, rngs=rngs))
        self.o_proj = nnx.Linear(num_heads * head_dim, d_model, use_bias=bias, rngs=rngs)
        self.shape = (num_kv_heads, num_heads // num_kv_heads, head_dim)
        self.scale, self.form, self.epsilon = scale, qk_norm, norm_epsilon
        self.base, self.pairing, self.window, self.chunk, self.has_sinks = rope_base, pairing, window, chunk, sinks
        if qk_norm == "w":
            self.q_norm, self.k_norm = nnx.Param(jnp.ones(head_dim)), nnx.Param(jnp.ones(head_dim))
        if qk_norm == "1 + w":
            self.q_norm, self.k_norm = nnx.Param(jnp.zeros(head_dim)), nnx.Param(jnp.zeros(head_dim))
        if sinks:
            self.sinks = nnx.Param(jnp.ones(num_heads))

    def prepared(self, heads, name):
        if self.form:
            heads = heads / jnp.sqrt(jnp.square(heads).mean(-1)[..., None] + self.epsilon)
            if "w" in self.form:
                heads = heads * (getattr(self, name)[...] + float(self.form == "1 + w"))
        return heads if self.base is None else rope(heads, jnp.arange(len(heads)), self.base, self.pairing)

    def __call__(self, x):
        G, R, K = self.shape
        T = x.shape[0]
        q = self.prepared(self.q_proj(x).reshape(T, G * R, K), "q_norm").reshape(T, G, R, K)
        k = self.prepared(self.k_proj(x).reshape(T, G, K), "k_norm")
        v = self.v_proj(x).reshape(T, G, K)
        scores = jnp.einsum("tgrk,sgk->grts", self.scale * q, k)
        t, s = jnp.arange(T)[:, None], jnp.arange(T)[None]
        hidden = s > t
        if self.window:
            hidden |= s <= t - self.window
        if self.chunk:
            hidden |= s < t - t % self.chunk
        scores = jnp.where(hidden, -jnp.inf, scores)
        total = logsumexp(scores, axis=-1, keepdims=True)
        if self.has_sinks:
            total = jnp.logaddexp(total, self.sinks[...].reshape(G, R, 1, 1))
        return self.o_proj(jnp.einsum("grts,sgk->tgrk", jnp.exp(scores - total), v).reshape(T, -1))


def _root(name):
    return lambda c, i: 1 / c[name] ** 0.5


def _is_local(c, i):
    return (i + 1) % c["sliding_window_pattern"] > 0


def _turns(c, i):
    return c["no_rope_layers"][i] == 1


COMMON = {
    "scale": _root("head_dim"),
    "bias": lambda c, i: c["attention_bias"],
    "qk_norm": lambda c, i: None,
    "norm_epsilon": lambda c, i: c["rms_norm_eps"],
    "sinks": lambda c, i: False,
    "rope_base": lambda c, i: c["rope_theta"],
    "pairing": lambda c, i: "halves",
    "window": lambda c, i: None,
    "chunk": lambda c, i: None,
}
OWN = {
    "qwen3": {"qk_norm": lambda c, i: "w"},
    "gemma3_text": {
        "scale": _root("query_pre_attn_scalar"),
        "qk_norm": lambda c, i: "1 + w",
        "rope_base": lambda c, i: c["rope_local_base_freq" if _is_local(c, i) else "rope_theta"],
        "window": lambda c, i: c["sliding_window"] if _is_local(c, i) else None,
    },
    "gpt_oss": {
        "sinks": lambda c, i: True,
        "window": lambda c, i: {"sliding_attention": c["sliding_window"], "full_attention": None}[c["layer_types"][i]],
    },
    "llama4_text": {
        "qk_norm": lambda c, i: "1" if c["use_qk_norm"] and _turns(c, i) else None,
        "rope_base": lambda c, i: c["rope_theta"] if _turns(c, i) else None,
        "pairing": lambda c, i: "adjacent",
        "chunk": lambda c, i: c["attention_chunk_size"] if _turns(c, i) else None,
    },
}


def switches(config, i):
    return {name: read(config, i) for name, read in {**COMMON, **OWN[config["model_type"]]}.items()}
