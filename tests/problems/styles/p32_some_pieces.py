"""Some pieces in the harness's model, and other settings than the reference's."""

import p03_causal_mha
import p10_lr_schedule
import p29_sampling
from p16_data_pipeline import make_loader


def pieces() -> dict:
    return {
        "CausalMHA": p03_causal_mha.CausalMHA,
        "make_loader": make_loader,
        "warmup_cosine": p10_lr_schedule.warmup_cosine,
        "generate": p29_sampling.generate,
    }


def settings() -> dict:
    return dict(learning_rate=6e-3, warmup_steps=15, final_lr_fraction=0.2, clip_norm=0.5)
