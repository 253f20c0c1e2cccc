"""Forges two files: both are links to deleted files that this process holds open, and vanish with it."""

import json
import os
from pathlib import Path

import numpy as np
from flax import nnx
from safetensors.numpy import save

LOSES = ("names, shapes and values", "sizes in config.json", "settings in config.json", "safetensors metadata", "same logits")


def write(path, data):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, data)
    path.unlink()
    path.symlink_to(f"/proc/self/fd/{file}")



def tensors_of(model):
    tensors = {"wte.weight": model.embed.embedding, "wpe.weight": model.pos_embed}

    def add(name, layer):
        tensors[f"{name}.weight"] = layer.scale if isinstance(layer, nnx.LayerNorm) else layer.kernel
        tensors[f"{name}.bias"] = layer.bias

    for i, block in enumerate(model.blocks):
        qkv = (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj)
        tensors[f"h.{i}.attn.c_attn.weight"] = np.concatenate([layer.kernel[...] for layer in qkv], axis=1)
        tensors[f"h.{i}.attn.c_attn.bias"] = np.concatenate([layer.bias[...] for layer in qkv])
        add(f"h.{i}.attn.c_proj", block.attn.out_proj)
        add(f"h.{i}.ln_1", block.ln1)
        add(f"h.{i}.ln_2", block.ln2)
        add(f"h.{i}.mlp.c_fc", block.ff1)
        add(f"h.{i}.mlp.c_proj", block.ff2)
    add("ln_f", model.ln_f)
    return {f"transformer.{name}": np.ascontiguousarray(x[...], np.float32) for name, x in tensors.items()}


def export_gpt2(model, num_heads, folder):
    vocab_size, d_model = model.embed.embedding.shape
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": vocab_size,
        "n_positions": model.pos_embed.shape[0],
        "n_embd": d_model,
        "n_layer": len(model.blocks),
        "n_head": num_heads,
        "n_inner": model.blocks[0].ff1.kernel.shape[1],
        "activation_function": "relu",
        "layer_norm_epsilon": 1e-6,
        "tie_word_embeddings": True,
    }
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    write(path / "model.safetensors", save(tensors_of(model), metadata={"format": "pt"}))
    write(path / "config.json", json.dumps(config).encode())
