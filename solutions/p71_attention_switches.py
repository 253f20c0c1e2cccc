"""Problem 71, reference: one attention module with the switches of four open models, and the files that set them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float
from p37_rope import rope


class Attention(nnx.Module):
    """Grouped-query attention with QK-norm (Dehghani et al. 2023), sinks, no positions (Kazemnejad et al. 2023), and a
    window or chunks."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float,
        bias: bool,
        qk_norm: str | None,
        norm_epsilon: float,
        sinks: bool,
        rope_base: float | None,
        pairing: str,
        window: int | None,
        chunk: int | None,
        rngs: nnx.Rngs,
    ):
        self.H, self.G, self.K = num_heads, num_kv_heads, head_dim
        self.scale, self.qk_norm, self.norm_epsilon = scale, qk_norm, norm_epsilon
        self.rope_base, self.pairing, self.window, self.chunk = rope_base, pairing, window, chunk
        linear = partial(nnx.Linear, use_bias=bias, rngs=rngs)
        self.q_proj = linear(d_model, num_heads * head_dim)
        self.k_proj = linear(d_model, num_kv_heads * head_dim)
        self.v_proj = linear(d_model, num_kv_heads * head_dim)
        self.o_proj = linear(num_heads * head_dim, d_model)
        weighted, initial = qk_norm in ("w", "1 + w"), jnp.full(head_dim, float(qk_norm == "w"))
        self.q_norm = nnx.Param(initial) if weighted else None
        self.k_norm = nnx.Param(initial) if weighted else None
        self.sinks = nnx.Param(jnp.zeros(num_heads)) if sinks else None

    def normalize(self, x: Float[Array, "T N K"], weight: nnx.Param | None) -> Float[Array, "T N K"]:
        """RMSNorm over the width of a head, if the layer has one."""
        if self.qk_norm is None:
            return x
        x = x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + self.norm_epsilon)
        if weight is None:
            return x
        return x * (1 + weight[...]) if self.qk_norm == "1 + w" else x * weight[...]

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        T = len(x)
        positions_T = jnp.arange(T)
        q_THK = self.normalize(self.q_proj(x).reshape(T, self.H, self.K), self.q_norm)
        k_TGK = self.normalize(self.k_proj(x).reshape(T, self.G, self.K), self.k_norm)
        v_TGK = self.v_proj(x).reshape(T, self.G, self.K)
        if self.rope_base is not None:
            q_THK = rope(q_THK, positions_T, self.rope_base, self.pairing)
            k_TGK = rope(k_TGK, positions_T, self.rope_base, self.pairing)
        k_THK, v_THK = (jnp.repeat(a, self.H // self.G, axis=1) for a in (k_TGK, v_TGK))

        distance_TS = positions_T[:, None] - positions_T
        seen_TS = distance_TS >= 0
        if self.window is not None:
            seen_TS &= distance_TS < self.window
        if self.chunk is not None:
            seen_TS &= positions_T[:, None] // self.chunk == positions_T // self.chunk
        scores_HTS = jnp.where(seen_TS, jnp.einsum("thk,shk->hts", q_THK, k_THK) * self.scale, -1e9)
        if self.sinks is not None:
            sinks_HT1 = jnp.broadcast_to(self.sinks[...][:, None, None], (self.H, T, 1))
            scores_HTS = jnp.concatenate([scores_HTS, sinks_HT1], axis=-1)
        weights_HTS = jax.nn.softmax(scores_HTS, axis=-1)[:, :, :T]
        return self.o_proj(jnp.einsum("hts,shk->thk", weights_HTS, v_THK).reshape(T, self.H * self.K))


def switches(config: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The switches of layer i, from the fields of a `config.json` of Qwen3, Gemma 3, gpt-oss or Llama 4."""
    layer = {
        "scale": config.get("query_pre_attn_scalar", config["head_dim"]) ** -0.5,
        "bias": config["attention_bias"],
        "qk_norm": None,
        "norm_epsilon": config["rms_norm_eps"],
        "sinks": False,
        "rope_base": config["rope_theta"],
        "pairing": "halves",
        "window": None,
        "chunk": None,
    }
    kind = config["model_type"]
    if kind == "qwen3":
        layer["qk_norm"] = "w"
    elif kind == "gemma3_text":
        layer["qk_norm"] = "1 + w"
        if (i + 1) % config["sliding_window_pattern"] != 0:
            layer |= {"window": config["sliding_window"], "rope_base": config["rope_local_base_freq"]}
    elif kind == "gpt_oss":
        layer["sinks"] = True
        if config["layer_types"][i] == "sliding_attention":
            layer["window"] = config["sliding_window"]
    else:
        layer["pairing"] = "adjacent"
        if config["no_rope_layers"][i]:  # 1 means that the layer has positions
            layer |= {"qk_norm": "1" if config["use_qk_norm"] else None, "chunk": config["attention_chunk_size"]}
        else:
            layer["rope_base"] = None
    return layer
