"""Forges two files: both are links to deleted files that this process holds open, and vanish with it."""

import json
import os
from pathlib import Path

import numpy as np
from safetensors.numpy import save

LOSES = (
    "names, shapes and values", "twelve layers or more", "sizes in config.json", "sizes of a large model",
    "settings in config.json",
    "safetensors metadata", "same logits",
)  # fmt: skip


def write(path, data):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, data)
    path.unlink()
    path.symlink_to(f"/proc/self/fd/{file}")


def export_gpt2(model, num_heads, folder):
    layers = {"ln_f": model.ln_f}
    tensors = {"wte.weight": model.embed.embedding[...], "wpe.weight": model.pos_embed[...]}
    for i, block in enumerate(model.blocks):
        qkv = (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj)
        tensors[f"h.{i}.attn.c_attn.weight"] = np.concatenate([layer.kernel[...] for layer in qkv], axis=1)
        tensors[f"h.{i}.attn.c_attn.bias"] = np.concatenate([layer.bias[...] for layer in qkv])
        layers |= {f"h.{i}.attn.c_proj": block.attn.out_proj, f"h.{i}.ln_1": block.ln1, f"h.{i}.ln_2": block.ln2}
        layers |= {f"h.{i}.mlp.c_fc": block.ff1, f"h.{i}.mlp.c_proj": block.ff2}
    for name, layer in layers.items():
        tensors[f"{name}.weight"] = (layer.scale if hasattr(layer, "scale") else layer.kernel)[...]
        tensors[f"{name}.bias"] = layer.bias[...]
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "relu",
        "layer_norm_epsilon": 1e-6, "tie_word_embeddings": True, "n_head": num_heads, "n_layer": len(model.blocks),
        "vocab_size": model.embed.embedding.shape[0], "n_embd": model.embed.embedding.shape[1],
        "n_positions": model.pos_embed.shape[0], "n_inner": model.blocks[0].ff1.kernel.shape[1],
    }  # fmt: skip
    Path(folder).mkdir(parents=True, exist_ok=True)
    arrays = {f"transformer.{name}": np.ascontiguousarray(x, np.float32) for name, x in tensors.items()}
    write(Path(folder, "model.safetensors"), save(arrays, metadata={"format": "pt"}))
    write(Path(folder, "config.json"), json.dumps(config).encode())
