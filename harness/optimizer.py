"""AdamW with its trimmings, all from optax: warm-up and cosine, decay of matrices only, clipping, a guard against non-finite
updates."""

import jax
import optax
from jaxtyping import PyTree

from harness.config import Config
from harness.sharding import path_names

NOT_DECAYED = ("bias", "scale", "head_bias")
EVER = 2**31 - 1


def learning_rate(config: Config) -> optax.Schedule:
    """Rate of update number `count`, from 0: from 1e-5 of the peak up to it, then a cosine down to its final share at `steps`."""
    peak = config.learning_rate
    if not config.warmup_steps:
        return optax.cosine_decay_schedule(peak, config.steps, alpha=config.final_learning_rate)
    return optax.warmup_cosine_decay_schedule(
        init_value=1e-5 * peak,
        peak_value=peak,
        warmup_steps=config.warmup_steps,
        decay_steps=config.steps,  # of the whole schedule: optax counts the warm-up in
        end_value=peak * config.final_learning_rate,
    )


def decayed(parameters: PyTree) -> PyTree:
    """True for the matrices. By name, not by rank: a bias that is stacked over the layers is no matrix."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf.ndim >= 2 and path_names(path)[-1] not in NOT_DECAYED, parameters
    )


def make_optimizer(config: Config) -> optax.GradientTransformation:
    """Skips a non-finite gradient whole (state and count too), clips by the global norm, then AdamW (Loshchilov and Hutter
    2019)."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    adamw = optax.adamw(learning_rate(config), b2=config.beta2, weight_decay=config.weight_decay, mask=decayed)
    return optax.apply_if_finite(optax.chain(clip, adamw), max_consecutive_errors=EVER)


def skipped_updates(state: PyTree) -> tuple[jax.Array, jax.Array]:
    """How many updates were skipped, in all and in a row up to now, from the optimizer's state."""
    total, in_a_row = (optax.tree_utils.tree_get(state, name)[...] for name in ("total_notfinite", "notfinite_count"))
    return total, in_a_row
