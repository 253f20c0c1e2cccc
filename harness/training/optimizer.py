"""The optimizer: AdamW with warm-up, cosine decay, clipping and a non-finite guard, all from optax."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import optax
from jaxtyping import PyTree

from harness.config import Config
from harness.training.sharding import path_names

NOT_DECAYED = ("bias", "scale", "head_bias")
UNLIMITED = 2**31 - 1


def learning_rate(config: Config) -> optax.Schedule:
    """The learning rate of update 0, 1, ...

    Linear warm-up from 1e-5 of the peak, then a cosine that reaches `final_lr_fraction` of the peak at the schedule's end.
    """
    peak, steps = config.learning_rate, config.schedule_steps or config.steps
    if not config.warmup_steps:
        return optax.cosine_decay_schedule(peak, steps, alpha=config.final_lr_fraction)
    return optax.warmup_cosine_decay_schedule(
        init_value=1e-5 * peak,
        peak_value=peak,
        warmup_steps=config.warmup_steps,
        decay_steps=steps,  # in optax, this includes the warm-up
        end_value=peak * config.final_lr_fraction,
    )


def decayed(parameters: PyTree) -> PyTree:
    """True for each matrix. Tests names as well as ranks, because a bias stacked over the layers has rank 2."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf.ndim >= 2 and path_names(path)[-1] not in NOT_DECAYED, parameters
    )


@dataclass(frozen=True)
class OptimizerOverrides:
    """Functions that replace parts of the optimizer, with the signatures of the course's problems. None keeps the default."""

    schedule: Callable[[float, int, int], optax.Schedule] | None = None  # (peak, warm-up steps, steps in total)
    adamw: Callable[..., optax.GradientTransformation] | None = (
        None  # (rate, b1, b2, epsilon, decay); decays all parameters
    )
    clip: Callable[[PyTree, float], tuple[PyTree, jax.Array]] | None = None
    guard: Callable[[optax.GradientTransformation], optax.GradientTransformation] | None = None


DEFAULTS = OptimizerOverrides()


def schedule(config: Config, overrides: OptimizerOverrides) -> optax.Schedule:
    """The learning rate of each update, counting from 0 and without skipped updates."""
    if overrides.schedule is None:
        return learning_rate(config)
    return overrides.schedule(config.learning_rate, config.warmup_steps, config.schedule_steps or config.steps)


def make_optimizer(config: Config, overrides: OptimizerOverrides = DEFAULTS) -> optax.GradientTransformation:
    """Clips by the global norm, then applies AdamW (Loshchilov and Hutter 2019).

    A non-finite gradient skips the whole update and leaves the optimizer's state, including its count, unchanged.
    """
    rate = schedule(config, overrides)
    if not config.clip_norm:
        clip = optax.identity()
    elif overrides.clip is None:
        clip = optax.clip_by_global_norm(config.clip_norm)
    else:
        clip_gradients = overrides.clip
        clip = optax.stateless(lambda gradients, _: clip_gradients(gradients, config.clip_norm)[0])
    if overrides.adamw is None:
        adamw = optax.adamw(rate, b2=config.beta2, weight_decay=config.weight_decay, mask=decayed)
    else:
        # At rate 1 the updates include the minus sign and the decay; the schedule scales them.
        unit_rate = overrides.adamw(1.0, 0.9, config.beta2, 1e-8, config.weight_decay)
        adamw = optax.chain(unit_rate, optax.scale_by_schedule(rate))
    transformation = optax.chain(clip, adamw)
    return (
        overrides.guard(transformation)
        if overrides.guard
        else optax.apply_if_finite(transformation, max_consecutive_errors=UNLIMITED)
    )


def skipped_updates(state: PyTree) -> jax.Array:
    """The number of skipped updates, from the state of optax's guard or of one with a field `skipped`.

    Raises KeyError if the state has neither.
    """
    for name in ("total_notfinite", "skipped"):
        count = optax.tree_utils.tree_get(state, name)
        if count is not None:
            return count[...]
    raise KeyError("the optimizer's state has no count of skipped updates")
