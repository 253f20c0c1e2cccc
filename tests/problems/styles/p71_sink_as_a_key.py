"""`jax.nn.dot_product_attention`, with the sink as a key and a value of zeros whose score is a bias."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

NOT_SET = ("qk_norm", "window", "chunk")


class Attention(nnx.Module):
    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, head_dim: int, scale, bias, qk_norm, norm_epsilon, sinks,
        rope_base, pairing, window, chunk, rngs,
    ):  # fmt: skip
        def projection(n, m):
            return nnx.Linear(n, m, use_bias=bias, rngs=rngs)

        self.q_proj = projection(d_model, num_heads * head_dim)
        self.k_proj = projection(d_model, num_kv_heads * head_dim)
        self.v_proj = projection(d_model, num_kv_heads * head_dim)
        self.o_proj = projection(num_heads * head_dim, d_model)
        if qk_norm not in (None, "1"):
            self.q_norm = nnx.Param(jnp.ones(head_dim) if qk_norm == "w" else jnp.zeros(head_dim))
            self.k_norm = nnx.Param(self.q_norm[...])
        if sinks:
            self.sinks = nnx.Param(jax.random.normal(rngs.params(), num_heads))
        self.K = head_dim
        self.layer = dict(
            scale=scale, qk_norm=qk_norm, epsilon=norm_epsilon, base=rope_base, pairing=pairing, window=window,
            chunk=chunk, sinks=sinks,
        )  # fmt: skip

    def ready(self, x, projection, w):
        heads, layer = projection(x).reshape(len(x), -1, self.K), self.layer
        if layer["qk_norm"] is not None:
            factor = {"1": lambda: 1.0, "w": lambda: w[...], "1 + w": lambda: 1.0 + w[...]}[layer["qk_norm"]]()
            heads = factor * jax.nn.standardize(heads, mean=0.0, variance=(heads**2).mean(-1, keepdims=True),
                                                epsilon=layer["epsilon"])  # fmt: skip
        if layer["base"] is None:
            return heads
        return rope(heads, jnp.arange(len(x)), layer["base"], pairing=layer["pairing"])

    def __call__(self, x):
        T, layer = len(x), self.layer
        q = self.ready(x, self.q_proj, getattr(self, "q_norm", None))
        k = self.ready(x, self.k_proj, getattr(self, "k_norm", None))
        v = self.v_proj(x).reshape(T, -1, self.K)
        mask = jnp.tri(T, dtype=bool)
        if layer["window"] is not None:
            mask &= ~jnp.tri(T, k=-layer["window"], dtype=bool)
        if layer["chunk"] is not None:
            number = jnp.repeat(jnp.arange(T), layer["chunk"])[:T]
            mask &= number[:, None] == number[None, :]
        bias = None
        if layer["sinks"]:
            k, v = (jnp.pad(a, ((0, 1), (0, 0), (0, 0))) for a in (k, v))
            mask = jnp.pad(mask, ((0, 0), (0, 1)), constant_values=True)
            H = q.shape[1]
            bias = jnp.zeros((H, T, T + 1)).at[:, :, T].set(self.sinks[...][:, None])[None]
        mixed = jax.nn.dot_product_attention(
            q[None], k[None], v[None], bias=bias, mask=mask[None, None], scale=layer["scale"]
        )
        return self.o_proj(mixed.reshape(T, -1))


def switches(config, i):
    kind = config["model_type"]
    found = dict.fromkeys(NOT_SET)
    found.update(bias=config["attention_bias"], norm_epsilon=config["rms_norm_eps"], rope_base=config["rope_theta"])
    found["sinks"] = kind == "gpt_oss"
    found["pairing"] = "adjacent" if kind.startswith("llama4") else "halves"
    found["scale"] = 1 / math.sqrt(config.get("query_pre_attn_scalar", config["head_dim"]))
    if kind == "gpt_oss" and config["layer_types"][i].startswith("sliding"):
        found["window"] = config["sliding_window"]
    if kind == "qwen3":
        found["qk_norm"] = "w"
    if kind == "gemma3_text":
        found["qk_norm"] = "1 + w"
        full = divmod(i + 1, config["sliding_window_pattern"])[1] == 0
        if not full:
            found.update(window=config["sliding_window"], rope_base=config["rope_local_base_freq"])
    if kind == "llama4_text" and config["no_rope_layers"][i]:
        found.update(chunk=config["attention_chunk_size"], qk_norm="1" if config["use_qk_norm"] else None)
    elif kind == "llama4_text":
        found["rope_base"] = None
    return found
