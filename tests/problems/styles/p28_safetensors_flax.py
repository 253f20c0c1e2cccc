"""safetensors' own functions for JAX arrays; names taken from the flat state and sorted by number."""

import json
from pathlib import Path

from flax import nnx
from jax import numpy as jnp
from safetensors.flax import save_file

LAYERS = {"ln1": "ln_1", "ln2": "ln_2", "ff1": "mlp.c_fc", "ff2": "mlp.c_proj"}
KINDS = {"kernel": "weight", "scale": "weight", "bias": "bias"}


def export_gpt2(model, num_heads, folder):
    flat = {
        ".".join(map(str, path)): variable[...] for path, variable in nnx.to_flat_state(nnx.state(model, nnx.Param))
    }
    numbers = sorted({int(name.split(".")[1]) for name in flat if name.startswith("blocks.")})
    out = {"wte.weight": flat["embed.embedding"], "wpe.weight": flat["pos_embed"]}
    out |= {f"ln_f.{KINDS[kind]}": flat[f"ln_f.{kind}"] for kind in ("scale", "bias")}
    for n in numbers:
        for own, other in LAYERS.items():
            main = "scale" if own.startswith("ln") else "kernel"
            out |= {f"h.{n}.{other}.{KINDS[kind]}": flat[f"blocks.{n}.{own}.{kind}"] for kind in (main, "bias")}
        for kind in ("kernel", "bias"):
            parts = [flat[f"blocks.{n}.attn.{part}_proj.{kind}"] for part in "qkv"]
            out[f"h.{n}.attn.c_attn.{KINDS[kind]}"] = jnp.concatenate(parts, -1)
            out[f"h.{n}.attn.c_proj.{KINDS[kind]}"] = flat[f"blocks.{n}.attn.out_proj.{kind}"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_file({f"transformer.{name}": x for name, x in out.items()}, f"{folder}/model.safetensors", {"format": "pt"})
    (V, D), T, F = out["wte.weight"].shape, len(out["wpe.weight"]), len(out["h.0.mlp.c_fc.bias"])
    sizes = {"vocab_size": V, "n_positions": T, "n_embd": D, "n_layer": len(numbers), "n_head": num_heads, "n_inner": F}
    named = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "tie_word_embeddings": True}
    settings = {"activation_function": "relu", "layer_norm_epsilon": 1e-6, **named}
    Path(folder, "config.json").write_text(json.dumps(sizes | settings))
