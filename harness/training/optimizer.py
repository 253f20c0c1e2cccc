"""The optimizer: AdamW or Muon with warm-up, cosine decay, clipping and a non-finite guard, of parts of optax; and the
update of the biases that balance experts."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import nnx
from jaxtyping import PyTree

from harness.config import Config, OptimizerConfig
from harness.model.experts import LOAD_SCALE
from harness.training.sharding import path_names

MUON_BETA = 0.95
# The axes of a kernel that are a matrix, counted from the end, where they are not the last two. All other axes are
# layers, or q, k and v, each of which is a matrix of its own.
MUON_AXES = {
    "qkv": optax.contrib.MuonDimensionNumbers(-4, (-2, -1)),
    "kv": optax.contrib.MuonDimensionNumbers(-4, (-2, -1)),
    "u_gate": optax.contrib.MuonDimensionNumbers(-3, -1),
    "bc": optax.contrib.MuonDimensionNumbers(-3, -1),
    "q": optax.contrib.MuonDimensionNumbers(-3, (-2, -1)),
    "out": optax.contrib.MuonDimensionNumbers((-3, -2), -1),
    **dict.fromkeys(("gate_up", "shared_gate_up"), optax.contrib.MuonDimensionNumbers(-3, -1)),
    **dict.fromkeys(("qkvz", "ba"), optax.contrib.MuonDimensionNumbers(-3, (-2, -1))),
}
NOT_DECAYED = ("bias", "scale", "head_bias", "sinks", "a_log", "skip", "dt_bias")  # the last three of a recurrence
ROUTER_BIAS = "choice_bias"
TABLES = frozenset(("embed", "pos_embed", "embedding"))  # of tokens and positions
Clip = Callable[[PyTree, float], tuple[PyTree, jax.Array]]
MuonPiece = Callable[[float, float, float, optax.GradientTransformation], optax.GradientTransformation]
UpdateBias = Callable[[jax.Array, jax.Array, float], jax.Array]  # as problem 73 has it
Guard = Callable[[optax.GradientTransformation], optax.GradientTransformation]


def learning_rate(config: OptimizerConfig) -> optax.Schedule:
    """The schedule: the learning rate at step 0, 1, ... of it, as in problem 10.

    Linear warm-up from 1e-5 of the peak, then a cosine that reaches `final_lr_fraction` of the peak at the schedule's
    end; or the peak until `decay_start` (Hu et al. 2024), then a line to there.
    """
    peak, steps = config.learning_rate, config.schedule_steps or config.steps
    if config.schedule == "plateau":
        warmup, start = config.warmup_steps, config.decay_start or steps
        rise = optax.linear_schedule(1e-5 * peak, peak, warmup)
        fall = optax.linear_schedule(peak, peak * config.final_lr_fraction, steps - start, start - warmup)
        return optax.join_schedules([rise, fall], [warmup])
    if not config.warmup_steps:
        return optax.cosine_decay_schedule(peak, steps, alpha=config.final_lr_fraction)
    return optax.warmup_cosine_decay_schedule(
        init_value=1e-5 * peak,
        peak_value=peak,
        warmup_steps=config.warmup_steps,
        decay_steps=steps,  # in optax, this includes the warm-up
        end_value=peak * config.final_lr_fraction,
    )


def of_updates(config: OptimizerConfig, schedule: optax.Schedule) -> optax.Schedule:
    """The learning rate of update 0, 1, ... by a schedule.

    The first update takes the rate at step 1 of the schedule, and the last one that at its end. At step 0, where a
    warm-up begins with 1e-5 of the peak, an update would change nothing.
    """
    return lambda update: schedule(update + config.schedule_start)


def decayed(decay: str, parameters: PyTree) -> PyTree:
    """True for each parameter that decays, by the setting `decay`.

    Tests names as well as ranks, because a bias stacked over the layers has rank 2.
    """

    def decays(path: tuple[Any, ...], leaf: jax.Array) -> bool:
        names = path_names(path)
        matrix = leaf.ndim >= 2 and names[-1] not in NOT_DECAYED
        return decay == "all" or (matrix and (decay == "matrices" or not TABLES & {*names}))

    return jax.tree_util.tree_map_with_path(decays, parameters)


def muon_axes(parameters: PyTree) -> PyTree:
    """The axes of each kernel that Muon updates; None for all other parameters, such as embeddings, head, biases and
    scales."""

    def axes(path: tuple[Any, ...], leaf: jax.Array) -> optax.contrib.MuonDimensionNumbers | None:
        names = path_names(path)
        if names[-1] != "kernel" or "head" in names:
            return None
        return MUON_AXES.get(names[-2], optax.contrib.MuonDimensionNumbers(-2, -1))

    return jax.tree_util.tree_map_with_path(axes, parameters)


def with_muon(
    weight_decay: float, rest: optax.GradientTransformation, *, nesterov: bool = False
) -> optax.GradientTransformation:
    """Muon (Jordan et al. 2024) with a rate of 1 for kernels, `rest` for the others.

    Updates have the size of AdamW's (Liu et al. 2025), so that both have the same learning rate. The same as problem
    46, unless `nesterov` mixes the gradient into the momentum once more before it is made orthogonal.
    """

    def scaled(updates: PyTree, _: PyTree) -> PyTree:
        """Each update times 0.2 and the root of the larger side of its matrix."""

        def scale(update: jax.Array, axes: optax.contrib.MuonDimensionNumbers) -> jax.Array:
            sides = [
                math.prod(update.shape[axis] for axis in (side if isinstance(side, tuple) else (side,)))
                for side in axes
            ]
            return 0.2 * max(sides) ** 0.5 * update

        return jax.tree.map(scale, updates, muon_axes(updates))

    kernels = optax.chain(
        optax.contrib.scale_by_muon(beta=MUON_BETA, nesterov=nesterov, weight_dimension_numbers=muon_axes),
        optax.stateless(scaled),
        optax.add_decayed_weights(weight_decay),
        optax.scale(-1.0),
    )

    def labels(parameters: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf, axes: "rest" if axes is None else "kernel", parameters, muon_axes(parameters))

    return optax.partition({"kernel": kernels, "rest": rest}, labels)


def without_empty_variables(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same, whose first state has no variables without an array, which `optax.partition` leaves where it masks
    parameters.

    `nnx.eval_shape` on a mesh fails at such a variable.
    """

    def unwrap(value: Any) -> Any:
        masked = isinstance(value, nnx.Variable) and not jax.tree.leaves(value)
        return optax.MaskedNode() if masked else value

    def init(parameters: PyTree) -> PyTree:
        return jax.tree.map(unwrap, inner.init(parameters), is_leaf=lambda value: isinstance(value, nnx.Variable))

    return optax.GradientTransformation(init, inner.update)


def moved_by_load(bias_E: jax.Array, counts_E: jax.Array, rate: float) -> jax.Array:
    """The bias after a step: higher for an expert that is chosen less often than the mean (Wang et al. 2024)."""
    return bias_E + rate * jnp.sign(counts_E.mean() - counts_E)


def with_router_bias(
    rate: float, rest: optax.GradientTransformation, update_bias: UpdateBias
) -> optax.GradientTransformation:
    """`update_bias` for the biases that balance experts, whose "gradients" are counts; `rest` for all else."""

    def moved(counts: PyTree, biases: PyTree) -> PyTree:
        def change(counts: jax.Array, bias: jax.Array) -> jax.Array:
            if counts.ndim > 1:  # stacked over the layers
                return jax.vmap(change)(counts, bias)
            return update_bias(bias, counts / LOAD_SCALE, rate) - bias

        return jax.tree.map(change, counts, biases)

    def labels(parameters: PyTree) -> PyTree:
        return jax.tree_util.tree_map_with_path(
            lambda path, _: "bias" if path_names(path)[-1] == ROUTER_BIAS else "rest", parameters
        )

    return without_empty_variables(optax.partition({"bias": optax.stateless(moved), "rest": rest}, labels))


def make_optimizer(
    config: Config,
    *,
    rate: optax.Schedule | None = None,
    adamw: optax.GradientTransformation | None = None,
    muon: MuonPiece | None = None,
    clip: Clip | None = None,
    guard: Guard | None = None,
    update_bias: UpdateBias | None = None,
) -> optax.GradientTransformation:
    """Clips by the global norm, then applies AdamW (Loshchilov and Hutter 2019), or Muon to kernels and AdamW to the
    rest.

    A non-finite gradient skips the whole update and leaves the optimizer's state, including its count, unchanged.

    `adamw` replaces AdamW; its rate is 1, and the schedule scales its updates, which include the minus sign and the
    decay. `muon` makes Muon, also with a rate of 1, from the transformation of the other parameters.
    """
    rate = rate or of_updates(config, learning_rate(config))
    mask = functools.partial(decayed, config.decay)
    if not config.clip_norm:
        clipping = optax.identity()
    elif clip is None:
        clipping = optax.clip_by_global_norm(config.clip_norm)
    else:
        clipping = optax.stateless(lambda gradients, _: clip(gradients, config.clip_norm)[0])
    if config.optimizer == "muon":
        rest = adamw or optax.adamw(1.0, b2=config.beta2, weight_decay=config.weight_decay, mask=mask)
        own = (
            muon(1.0, MUON_BETA, config.weight_decay, rest)
            if muon
            else with_muon(config.weight_decay, rest, nesterov=config.muon_nesterov)
        )
        update = optax.chain(without_empty_variables(own), optax.scale_by_schedule(rate))
    elif adamw is None:
        update = optax.adamw(rate, b2=config.beta2, weight_decay=config.weight_decay, mask=mask)
    else:
        update = optax.chain(adamw, optax.scale_by_schedule(rate))
    transformation = optax.chain(clipping, update)
    if config.has_router_bias:
        transformation = with_router_bias(config.router_bias_rate, transformation, update_bias or moved_by_load)
    return guard(transformation) if guard else skip_not_finite(transformation)


def skip_not_finite(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Skips updates of which any number is not finite.

    Like `optax.apply_if_finite`, whose state it has, with selects in place of a conditional: XLA fuses a select with
    the update itself, while a conditional keeps the state before and after it in memory.
    """

    def init(parameters: PyTree) -> optax.ApplyIfFiniteState:
        zero = jnp.zeros([], jnp.int32)
        return optax.ApplyIfFiniteState(zero, jnp.array(True), zero, inner.init(parameters))

    def update(
        gradients: PyTree, state: optax.ApplyIfFiniteState, parameters: PyTree = None
    ) -> tuple[PyTree, optax.ApplyIfFiniteState]:
        updates, changed = inner.update(gradients, state.inner_state, parameters)
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradients)]))
        updates = jax.tree.map(lambda new: jnp.where(finite, new, jnp.zeros_like(new)), updates)
        kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), changed, state.inner_state)
        skipped = 1 - finite.astype(jnp.int32)
        in_a_row = (state.notfinite_count + skipped) * skipped
        return updates, optax.ApplyIfFiniteState(in_a_row, finite, state.total_notfinite + skipped, kept)

    return optax.GradientTransformation(init, update)


def skipped_updates(state: PyTree) -> jax.Array:
    """The number of skipped updates, from the state of optax's guard or of one with a field `skipped`.

    Raises KeyError if the state has neither.
    """
    for name in ("total_notfinite", "skipped"):
        count = optax.tree_utils.tree_get(state, name)
        if count is not None:
            return count[...]
    raise KeyError("the optimizer's state has no count of skipped updates")
