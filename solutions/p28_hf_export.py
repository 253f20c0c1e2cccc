"""Problem 28, reference: export to the format of Hugging Face's GPT-2."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx
from safetensors.numpy import save_file


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """The arrays under GPT-2's names. Its Conv1D stores (in, out), as Flax does, so nothing is transposed."""
    tensors = {"wte.weight": model.embed.embedding, "wpe.weight": model.pos_embed}

    def add(name: str, layer: Any) -> None:
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


def export_gpt2(model: Any, num_heads: int, folder: str) -> None:
    """Writes `model.safetensors` and `config.json` into `folder`."""
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
    save_file(tensors_of(model), path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(config, indent=2))
