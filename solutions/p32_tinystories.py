"""Problem 32, reference: the whole course in one run."""

from typing import Any

from p01_token_embedding import TokenAndPositionEmbed
from p03_causal_mha import CausalMHA
from p05_gpt_block import GPTBlock
from p06_mini_gpt import MiniGPT
from p07_next_token_loss import next_token_loss
from p08_train_step import train_step
from p09_adamw import adamw
from p10_lr_schedule import warmup_cosine
from p11_gradient_clipping import clip_by_global_norm
from p12_gradient_accumulation import accumulated_gradients
from p13_finite_guard import finite_guard
from p15_tokenize_and_pack import pack, tokenize
from p16_data_pipeline import make_loader
from p20_mesh_and_partitioning import make_mesh, partition_spec
from p21_sharded_train_step import shard_batch
from p22_fsdp import fsdp_spec
from p26_exact_resume import resume, save
from p28_hf_export import export_gpt2
from p29_sampling import generate, sampling_distribution
from p30_kv_cache import decode_step, empty_cache
from p31_lora import LoRALinear, merge

YOURS = (
    TokenAndPositionEmbed, CausalMHA, GPTBlock, MiniGPT, next_token_loss, train_step, adamw, warmup_cosine,
    clip_by_global_norm, accumulated_gradients, finite_guard, tokenize, pack, make_loader, make_mesh, partition_spec,
    shard_batch, fsdp_spec, save, resume, export_gpt2, sampling_distribution, generate, empty_cache, decode_step,
        LoRALinear,
    merge,
)  # fmt: skip


def pieces() -> dict[str, Any]:
    """Every piece of the course, under its own name."""
    return {piece.__name__: piece for piece in YOURS}


def settings() -> dict[str, float]:
    """A high rate, a short warm-up and a cosine down to a tenth, which suit such a small model."""
    return {"learning_rate": 5e-3, "warmup_steps": 10, "final_lr_fraction": 0.1, "weight_decay": 0.01}
