"""One small function per kind of layer, with jax.numpy and device_get."""

import json
import pathlib

import jax
import jax.numpy as jnp
from safetensors.numpy import save_file


def linear(prefix, layer):
    return {f"{prefix}.weight": layer.kernel[...], f"{prefix}.bias": layer.bias[...]}


def norm(prefix, layer):
    return {f"{prefix}.weight": layer.scale[...], f"{prefix}.bias": layer.bias[...]}


def block(i, b):
    p, a = f"transformer.h.{i}", b.attn
    fused = jax.tree.map(
        lambda *x: jnp.hstack(x), *[linear(f"{p}.attn.c_attn", x) for x in (a.q_proj, a.k_proj, a.v_proj)]
    )
    return {
        **norm(f"{p}.ln_1", b.ln1),
        **fused,
        **linear(f"{p}.attn.c_proj", a.out_proj),
        **norm(f"{p}.ln_2", b.ln2),
        **linear(f"{p}.mlp.c_fc", b.ff1),
        **linear(f"{p}.mlp.c_proj", b.ff2),
    }


def export_gpt2(model, num_heads, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True, parents=True)
    wte, wpe = model.embed.embedding[...], model.pos_embed[...]
    tensors = {"transformer.wte.weight": wte, "transformer.wpe.weight": wpe, **norm("transformer.ln_f", model.ln_f)}
    for i, b in enumerate(model.blocks):
        tensors |= block(i, b)
    save_file(jax.device_get(tensors), str(folder / "model.safetensors"), {"format": "pt"})
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "relu"}
    config |= {"vocab_size": len(wte), "n_positions": len(wpe), "n_embd": wte.shape[1], "n_layer": len(model.blocks)}
    config |= {"n_head": int(num_heads), "n_inner": model.blocks[0].ff1.out_features}
    config |= {"layer_norm_epsilon": 1e-6, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
