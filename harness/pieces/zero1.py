"""The pieces of problem 69 as the train step of a run: plain Adam, whose moments are split over the devices along
`data`."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from harness.config import Config
from harness.training.sharding import by_dotted_name
from harness.training.train_step import LossSum, Recipe

BETA2 = 0.999  # Adam's second decay in problem 69


class ZeroState(NamedTuple):
    """The state of the optimizer."""

    split: dict[str, Array]  # as `zero_state` makes it
    skipped: Array  # updates that were left out, since a loss or a gradient was not finite


def is_plain_adam(config: Config) -> bool:
    """Whether a run with `zero1=true` takes the steps of problem 69: Adam without decay, of whole batches, along `data`
    alone."""
    plain = config.optimizer == "adamw" and not config.weight_decay and config.beta2 == BETA2 and config.clip_norm > 0
    whole = config.grad_accumulation_steps == 1 and not config.lora_rank and not config.reward
    whole = whole and not config.has_router_bias  # which has an update of its own
    return config.zero1 and plain and whole and (config.mesh_shape or (1, 1))[1:] == (1,)


def with_zero_step(recipe: Recipe, config: Config, mesh: Mesh, zero_state: Any, zero_step: Any) -> Recipe:
    """The recipe whose train step is `zero_step`. Each device has whole parameters, and its part of the moments."""
    return dataclasses.replace(
        recipe,
        optimizer=optax.GradientTransformation(functools.partial(_init, mesh, zero_state), _never),
        sharding_rule=_rule,
        train_step=functools.partial(
            _train_step, _jitted(recipe.loss_sum, mesh, zero_step, config.clip_norm), recipe.learning_rate
        ),
    )


def _init(mesh: Mesh, zero_state: Any, parameters: Any) -> ZeroState:
    return ZeroState(zero_state(by_dotted_name(parameters), mesh), jnp.zeros((), jnp.int32))


def _never(*_: Any) -> NoReturn:
    raise AssertionError("zero_step updates the parameters itself")


def _rule(names: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    return PartitionSpec("data") if names[-1] in ("m", "v") and "split" in names else PartitionSpec()


def _jitted(loss_sum: LossSum, mesh: Mesh, zero_step: Any, max_norm: float) -> Callable[..., Any]:
    @functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 3))
    def step(
        graph: Any, parameters: Any, rest: Any, split: dict[str, Array], rows_BT: Array, rate: Array
    ) -> tuple[Any, dict[str, Array], Array, Array, Array]:
        """One update; none if the loss or the gradient is not finite."""
        old = by_dotted_name(parameters)

        def whole(named: dict[str, Array]) -> Any:
            return jax.tree.unflatten(jax.tree.structure(parameters), [named[name] for name in old])

        def of_rows(named: dict[str, Array], rows_bT: Array) -> tuple[Array, Array]:
            loss, count, *_ = loss_sum(nnx.merge(graph, whole(named), rest), rows_bT, None)
            return loss, count

        new, new_split, loss, norm = zero_step(of_rows, old, split, rows_BT, mesh, rate, max_norm)
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        named, kept = jax.tree.map(lambda n, o: jnp.where(finite, n, o), (new, new_split), (old, split))
        return whole(named), kept, ~finite, loss, norm

    return step


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, nnx.Variable)


def _train_step(
    step: Callable[..., Any], learning_rate: optax.Schedule, model: nnx.Module, optimizer: Any, rows_BT: Array
) -> tuple[Array, Array]:
    """Updates the model and the optimizer. Returns the loss and the norm of the gradient."""
    parts: Any = nnx.split(model, nnx.Param, ...)
    graph, parameters, rest = parts
    variables: ZeroState = optimizer.opt_state
    state = jax.tree.map(lambda variable: variable[...], variables, is_leaf=_is_variable)
    rate = learning_rate(optimizer.step[...] - state.skipped)
    parameters, split, skipped, loss, norm = step(graph, parameters, rest, state.split, rows_BT, rate)
    nnx.update(model, parameters)
    state = ZeroState(split, state.skipped + skipped)
    new = jax.tree.map(lambda variable, value: variable.replace(value), variables, state, is_leaf=_is_variable)
    optimizer.opt_state = nnx.data(new)
    optimizer.step[...] += 1
    return loss, norm
