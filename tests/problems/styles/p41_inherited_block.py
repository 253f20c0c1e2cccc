"""A block that inherits from problem 05's, and a model that inherits from problem 06's, whose norms are replaced."""

import jax
import jax.numpy as jnp
from flax import nnx
from p05_gpt_block import GPTBlock
from p06_mini_gpt import MiniGPT


class Block(GPTBlock):
    def __call__(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ff2(jax.nn.gelu(self.ff1(self.ln2(x))))


class GPT2(MiniGPT):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        super().__init__(vocab_size, d_model, num_heads, d_ff, 0, max_T, rngs=rngs)
        self.blocks = nnx.List([Block(d_model, num_heads, d_ff, rngs=rngs) for _ in range(num_layers)])
        for owner, name in [(self, "ln_f"), *((b, n) for b in self.blocks for n in ("ln1", "ln2"))]:
            setattr(owner, name, nnx.LayerNorm(d_model, epsilon=1e-5, rngs=rngs))


def load_gpt2(tensors, model):
    def get(name):
        full = f"transformer.{name}"
        return jnp.asarray(tensors[full] if full in tensors else tensors[name])

    def put(parameter, value):
        if parameter[...].shape == value.shape:
            parameter[...] = value
        else:
            raise ValueError(f"expected {parameter[...].shape}, got {value.shape}")

    depths = [
        int(name.split("h.")[1].split(".")[0]) for name in tensors if name.removeprefix("transformer.")[:2] == "h."
    ]
    if max(depths, default=-1) >= len(model.blocks):
        raise ValueError(f"the file has {max(depths) + 1} layers")
    put(model.embed.embedding, get("wte.weight"))
    if not (tensors.get("lm_head.weight", model.embed.embedding[...]) == model.embed.embedding[...]).all():
        raise ValueError("untied head")
    put(model.pos_embed, get("wpe.weight"))
    put(model.ln_f.scale, get("ln_f.weight"))
    put(model.ln_f.bias, get("ln_f.bias"))
    for i in range(len(model.blocks)):
        block, h = model.blocks[i], f"h.{i}"
        D = block.ln1.scale.shape[0]
        for n, proj in enumerate([block.attn.q_proj, block.attn.k_proj, block.attn.v_proj]):
            put(proj.kernel, get(f"{h}.attn.c_attn.weight")[:, n * D : (n + 1) * D])
            put(proj.bias, get(f"{h}.attn.c_attn.bias")[n * D : (n + 1) * D])
        for layer, name in [(block.attn.out_proj, "attn.c_proj"), (block.ff1, "mlp.c_fc"), (block.ff2, "mlp.c_proj")]:
            put(layer.kernel, get(f"{h}.{name}.weight"))
            put(layer.bias, get(f"{h}.{name}.bias"))
        for layer, name in [(block.ln1, "ln_1"), (block.ln2, "ln_2")]:
            put(layer.scale, get(f"{h}.{name}.weight"))
            put(layer.bias, get(f"{h}.{name}.bias"))
