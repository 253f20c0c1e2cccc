"""Problem 32: everything you built, in one run.

The page is in pages/p32_tinystories.md.
"""

from typing import Any

# Import the pieces that you want to train with, for example:
# from p03_causal_mha import CausalMHA


def pieces() -> dict[str, Any]:
    """Your pieces by name, such as {"CausalMHA": CausalMHA}. The harness uses its own
    for the rest; at least one is yours."""
    raise NotImplementedError


def settings() -> dict[str, float]:
    """How to train: any of learning_rate, warmup_steps, final_lr_fraction,
    weight_decay, beta2 and clip_norm."""
    raise NotImplementedError
