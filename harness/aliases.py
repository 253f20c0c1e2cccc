"""Other names of settings: those of former versions, and those of other programs."""

from collections.abc import Mapping

# Names in 0.1.0, with the present name and those of values. Such config.json files still load; on the command line, a
# former name is a usage error.
RENAMED: Mapping[str, tuple[str, dict[str, str]]] = {
    "form": ("packing", {}),
    "task": ("objective", {"next": "next_token", "same": "copy"}),
    "validation": ("validation_fraction", {}),
    "accumulate": ("grad_accumulation_steps", {}),
    "final_learning_rate": ("final_lr_fraction", {}),
}

# Names in other programs, for the hint on an unknown setting
CALLED_ELSEWHERE: Mapping[str, str] = {
    "lr": "learning_rate",
    "min_lr": "final_lr_fraction",
    "wd": "weight_decay",
    "grad_clip": "clip_norm",
    "bs": "batch_size",
    "max_steps": "steps",
    "max_iters": "steps",
    "warmup_iters": "warmup_steps",
    "early_stopping": "patience",
    "early_stopping_patience": "patience",
    "block": "context",
    "eval_interval": "eval_every",
    "save_every": "checkpoint_every",
    "save_steps": "checkpoint_every",
    "save_total_limit": "keep",
    "block_size": "context",
    "seq_len": "context",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "n_kv_head": "num_kv_heads",
    "n_embd": "d_model",
    "kv_lora_rank": "d_latent",
    "qk_rope_head_dim": "d_rope",
    "ssm_state_size": "d_state",
    "state_size": "d_state",
    "gradient_accumulation_steps": "grad_accumulation_steps",
}
