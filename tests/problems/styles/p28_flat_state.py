"""A table of name patterns applied to the flat state; the bytes from safetensors are written with open()."""

import json
import os
import re

import numpy as np
import safetensors.numpy
from flax import nnx

TABLE = [
    (r"embed\.embedding", "wte.weight"),
    (r"pos_embed", "wpe.weight"),
    (r"ln_f\.(scale|bias)", r"ln_f.\1"),
    (r"blocks\.(\d+)\.ln([12])\.(scale|bias)", r"h.\1.ln_\2.\3"),
    (r"blocks\.(\d+)\.attn\.out_proj\.(kernel|bias)", r"h.\1.attn.c_proj.\2"),
    (r"blocks\.(\d+)\.ff1\.(kernel|bias)", r"h.\1.mlp.c_fc.\2"),
    (r"blocks\.(\d+)\.ff2\.(kernel|bias)", r"h.\1.mlp.c_proj.\2"),
]


def export_gpt2(model, num_heads, folder):
    os.makedirs(folder, exist_ok=True)
    flat = {".".join(map(str, path)): np.asarray(v.get_raw_value()) for path, v in nnx.to_flat_state(nnx.state(model))}
    out = {}
    for name, value in flat.items():
        for pattern, new in TABLE:
            if re.fullmatch(pattern, name):
                key = re.sub(pattern, new, name).replace("kernel", "weight").replace("scale", "weight")
                out["transformer." + key] = value
    layers = len(model.blocks)
    for i in range(layers):
        for kind, key in (("kernel", "weight"), ("bias", "bias")):
            parts = [flat[f"blocks.{i}.attn.{p}_proj.{kind}"] for p in "qkv"]
            out[f"transformer.h.{i}.attn.c_attn.{key}"] = np.concatenate(parts, axis=-1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(safetensors.numpy.save(out, metadata={"format": "pt"}))
    V, D = flat["embed.embedding"].shape
    config = dict(
        architectures=["GPT2LMHeadModel"],
        model_type="gpt2",
        vocab_size=V,
        n_embd=D,
        n_layer=layers,
        n_head=num_heads,
        n_positions=len(flat["pos_embed"]),
        n_inner=flat["blocks.0.ff1.bias"].size,
        activation_function="relu",
        layer_norm_epsilon=1e-06,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
