"""Plain functions and one head after another: complex numbers that turn, and a sum with the sink in it."""

import jax.numpy as jnp
from flax import nnx


def turned(a, base, pairing):
    T, K = a.shape
    angles = jnp.arange(T)[:, None] * (1.0 / base) ** (jnp.arange(K // 2) * 2 / K)
    real, imaginary = (a[:, ::2], a[:, 1::2]) if pairing == "adjacent" else jnp.split(a, 2, axis=1)
    z = (real + 1j * imaginary) * jnp.exp(1j * angles)
    if pairing == "adjacent":
        return jnp.dstack([z.real, z.imag]).reshape(T, K)
    return jnp.hstack([z.real, z.imag])


class Attention(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, head_dim, scale, bias, qk_norm, norm_epsilon, sinks,
                 rope_base, pairing, window, chunk, rngs):  # fmt: skip
        self.switches = (scale, qk_norm, norm_epsilon, rope_base, pairing, window, chunk)
        self.heads, self.kv_heads, self.width = num_heads, num_kv_heads, head_dim
        self.o_proj = nnx.Linear(num_heads * head_dim, d_model, use_bias=bias, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, num_kv_heads * head_dim, use_bias=bias, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, num_kv_heads * head_dim, use_bias=bias, rngs=rngs)
        self.q_proj = nnx.Linear(d_model, num_heads * head_dim, use_bias=bias, rngs=rngs)
        start = {"w": 1.0, "1 + w": 0.0}
        if qk_norm in start:
            self.q_norm = nnx.Param(jnp.full((head_dim,), start[qk_norm]))
            self.k_norm = nnx.Param(jnp.full((head_dim,), start[qk_norm]))
        self.sinks = nnx.Param(jnp.full(num_heads, -1.0)) if sinks else None

    def head(self, a, weight):
        _, form, epsilon, base, pairing, _, _ = self.switches
        if form is not None:
            a = a * (jnp.sum(a * a, axis=1, keepdims=True) / self.width + epsilon) ** -0.5
        if form == "w":
            a = a * weight[...]
        elif form == "1 + w":
            a = a + a * weight[...]
        return a if base is None else turned(a, base, pairing)

    def __call__(self, x):
        scale, form, *_, window, chunk = self.switches
        T, K = len(x), self.width
        t = jnp.arange(T)
        first = jnp.zeros(T, int) if window is None else t - window + 1
        if chunk is not None:
            first = jnp.maximum(first, t // chunk * chunk)
        mask = (t[None, :] <= t[:, None]) & (t[None, :] >= first[:, None])
        weights = (self.q_norm, self.k_norm) if form in ("w", "1 + w") else (None, None)
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        keys = [self.head(k[:, g * K : (g + 1) * K], weights[1]) for g in range(self.kv_heads)]
        out = []
        for h in range(self.heads):
            g = h * self.kv_heads // self.heads
            scores = self.head(q[:, h * K : (h + 1) * K], weights[0]) @ keys[g].T * scale
            scores = jnp.where(mask, scores, -1e30)
            top = scores.max(1, keepdims=True)
            if self.sinks is not None:
                top = jnp.maximum(top, self.sinks[h])
            powers = jnp.exp(scores - top)
            whole = powers.sum(1, keepdims=True)
            if self.sinks is not None:
                whole = whole + jnp.exp(self.sinks[h] - top)
            out.append(powers / whole @ v[:, g * K : (g + 1) * K])
        return self.o_proj(jnp.hstack(out))


def switches(config, i):
    scale, base = config["head_dim"] ** -0.5, config["rope_theta"]
    norm = window = chunk = None
    pairs, sinks = "halves", False
    match config["model_type"]:
        case "qwen3":
            norm = "w"
        case "gemma3_text":
            norm, scale = "1 + w", config["query_pre_attn_scalar"] ** -0.5
            if i % config["sliding_window_pattern"] != config["sliding_window_pattern"] - 1:
                window, base = config["sliding_window"], config["rope_local_base_freq"]
        case "gpt_oss":
            sinks = True
            window = None if config["layer_types"][i] == "full_attention" else config["sliding_window"]
        case "llama4_text":
            pairs = "adjacent"
            if config["no_rope_layers"][i] == 0:
                base = None
            else:
                chunk = config["attention_chunk_size"]
                norm = "1" if config["use_qk_norm"] else None
    return dict(
        scale=scale, bias=config["attention_bias"], qk_norm=norm, norm_epsilon=config["rms_norm_eps"], sinks=sinks,
        rope_base=base, pairing=pairs, window=window, chunk=chunk,
    )  # fmt: skip
