"""AdamW with its trimmings, all from optax: warm-up and cosine, decay of matrices only, clipping, a guard against non-finite
updates."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import optax
from jaxtyping import PyTree

from harness.config import Config
from harness.training.sharding import path_names

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


@dataclass(frozen=True)
class OptimizerParts:
    """Somebody else's parts of the optimizer, each in the form of the course's problem; None stands for ours."""

    schedule: Callable[[float, int, int], optax.Schedule] | None = None  # (peak, warm-up, all steps)
    adamw: Callable[..., optax.GradientTransformation] | None = None  # (rate, b1, b2, epsilon, decay), decays all
    clip: Callable[[PyTree, float], tuple[PyTree, jax.Array]] | None = None
    guard: Callable[[optax.GradientTransformation], optax.GradientTransformation] | None = None


OURS = OptimizerParts()


def schedule(config: Config, parts: OptimizerParts) -> optax.Schedule:
    """The rate of each update that is not skipped, from 0."""
    if parts.schedule is None:
        return learning_rate(config)
    return parts.schedule(config.learning_rate, config.warmup_steps, config.steps)


def make_optimizer(config: Config, parts: OptimizerParts = OURS) -> optax.GradientTransformation:
    """Skips a non-finite gradient whole (state and count too), clips by the global norm, then AdamW (Loshchilov and Hutter
    2019)."""
    rate = schedule(config, parts)
    if not config.clip_norm:
        clip = optax.identity()
    elif parts.clip is None:
        clip = optax.clip_by_global_norm(config.clip_norm)
    else:
        theirs = parts.clip
        clip = optax.stateless(lambda gradients, _: theirs(gradients, config.clip_norm)[0])
    if parts.adamw is None:
        adamw = optax.adamw(rate, b2=config.beta2, weight_decay=config.weight_decay, mask=decayed)
    else:
        # At the rate 1 its updates carry the minus sign and the decay; the schedule scales them.
        unit = parts.adamw(1.0, 0.9, config.beta2, 1e-8, config.weight_decay)
        adamw = optax.chain(unit, optax.scale_by_schedule(rate))
    whole = optax.chain(clip, adamw)
    return parts.guard(whole) if parts.guard else optax.apply_if_finite(whole, max_consecutive_errors=EVER)


def skipped_updates(state: PyTree) -> jax.Array:
    """How many updates were skipped in all, from the optimizer's state: ours, or that of a guard with a field `skipped`."""
    for name in ("total_notfinite", "skipped"):
        found = optax.tree_utils.tree_get(state, name)
        if found is not None:
            return found[...]
    raise KeyError("the optimizer's state does not say how many updates were skipped")
