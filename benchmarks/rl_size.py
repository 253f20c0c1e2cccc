"""What reinforcement learning of a model takes on one GPU, by calculation: memory, tokens and arithmetic of an update.

    python benchmarks/rl_size.py [CONFIG.json] [LORA_RANK] [PROMPTS] [GROUP] [CONTEXT] [MICROBATCH]

The model is that of a config.json in Hugging Face's format, by default Qwen 2.5 with half a billion parameters. The
numbers of parameters are those of the harness's own model, whose arrays are counted but not made. Activations are
estimated; measure them with `harness profile` on the card.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import jax
from flax import nnx

from harness.config import Config
from harness.hugging_face.load import read_config
from harness.presets import reinforcement
from harness.run.estimate import F32, activations, logits
from harness.run.hardware import PEAK_FLOPS, device_named
from harness.training.recipe import default_model

QWEN = {
    "model_type": "qwen2",
    "vocab_size": 151_936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
BF16 = 2  # bytes of a number
SHARE = 0.35  # of an H100's peak in bfloat16, which the train step had in benchmarks/gpu.py


def sizes(config: Config) -> tuple[int, int]:
    """The number of parameters, and of those that are trained."""
    model = nnx.eval_shape(lambda: default_model(config, nnx.Rngs(0)))
    trained = nnx.LoRAParam if config.lora_rank else nnx.Param
    every, some = (sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, kind))) for kind in (nnx.Param, trained))
    return every, some


def main(file: Path, lora_rank: int, prompts: int, group: int, context: int, microbatch: int) -> None:
    """Prints the table."""
    settings = read_config(file.parent)
    base = replace(Config(), **{key: value for key, value in settings.items() if key != "tokenizer"})
    typed = {
        "lora_rank": lora_rank,
        "prompts": prompts,
        "group_size": group,
        "batch_size": prompts * group,
        "context": context,
        "reward": "task:arithmetic",
        "prompt_tokens": context // 4,
        "dtype": "bfloat16",
    }
    config = reinforcement(base, "hf:model", {key: str(value) for key, value in typed.items()})
    every, trained = sizes(config)
    rows = config.batch_size
    cache = 2 * config.num_layers * rows * config.kv_heads * context * config.per_head * BF16
    full_base = 0 if lora_rank or not config.kl_weight else every
    # Blocks of 16 tokens for half of each answer, on average, and for one copy of each prompt
    block, answer = 16, context - config.prompt_tokens
    blocks = prompts * (config.prompt_tokens // block) + rows * (answer // 2 // block + 1)
    paged = cache * blocks * block // (rows * context)
    card = device_named("H100", config.dtype)
    memory = {
        f"parameters with adapters, float32 ({every / 1e6:.0f} million)": every * F32,
        f"gradients and two moments of {trained / 1e6:.1f} million": 3 * trained * F32,
        "the base for the KL divergence, float32 (none with adapters)": full_base * F32,
        f"cache of {rows} continuations, bfloat16": cache,
        f"activations of {microbatch} rows, estimated": activations(config, microbatch * context),
        "logits, float32, of one chunk and its gradient": logits(config, microbatch * context, card.usable),
    }
    print(f"{file}: rank {lora_rank or 'none'}, {prompts} prompts of {group} continuations, context {context}")
    for name, size in memory.items():
        print(f"  {name:<62}{size / 1e9:8.2f} GB")
    print(f"  {'together':<62}{sum(memory.values()) / 1e9:8.2f} GB")
    print(f"  {f'the cache as {blocks:,} blocks for half of each answer':<62}{paged / 1e9:8.2f} GB")
    tokens = rows * context
    # A forward pass takes 2 FLOPs per parameter and token, for the policy and for the base; an update 6, or 4 with
    # adapters.
    scored = (2 * 2 if config.kl_weight else 2) * every * tokens
    updated = (4 if lora_rank else 6) * every * tokens
    seconds = (scored + updated) / (PEAK_FLOPS["H100"] * SHARE)
    # Each step of sampling reads all parameters and, on average, half of the cache: memory is the limit.
    sampling = (context - config.prompt_tokens) * (every * F32 + cache / 2) / 3.35e12
    print(f"  {'tokens of an update, at most':<62}{tokens:8,d}")
    print(f"  {'scores and update on an H100 at ' + f'{SHARE:.0%} of its peak':<62}{seconds:8.1f} s")
    print(f"  {'sampling, if reading memory at 3.35 TB/s is its only limit':<62}{sampling:8.1f} s")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--smoke"]
    numbers = [*map(int, words[1:]), *[16, 32, 16, 1024, 8][len(words[1:]) :]]
    if words:
        main(Path(words[0]), *numbers)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_text(json.dumps(QWEN))
            main(path, *numbers)
