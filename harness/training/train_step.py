"""The train state and its three jitted functions: init, train step, eval step."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.config import Config
from harness.model.gpt import GPT
from harness.model.lora import add_adapters
from harness.model.loss import token_loss
from harness.training.optimizer import OptimizerOverrides, make_optimizer, schedule, skipped_updates
from harness.training.sharding import ShardingRule, shardings

# (model, rows (B, T + 1) of ids, dropout key or None) -> the sum of the losses of all targets, in nats, and their number
LossSum = Callable[[nnx.Module, Array, PRNGKeyArray | None], tuple[Array, Array]]
# The NNX state of `(model, optimizer)`
State = Any


class StepMetrics(NamedTuple):
    """Metrics of one step, still on the device."""

    loss: Float[Array, ""]  # before the update
    learning_rate: Float[Array, ""]
    gradient_norm: Float[Array, ""]  # before clipping
    skipped: Int[Array, ""]  # updates skipped since the start of the run


@dataclass(frozen=True)
class Overrides:
    """Functions that replace the harness's own. None keeps the default."""

    build: Callable[[nnx.Rngs], nnx.Module] | None = None
    loss_sum: LossSum | None = None
    train_step: Callable[..., Array] | None = None  # (model, optimizer, rows, pad_id) -> loss
    optimizer: OptimizerOverrides = field(default_factory=OptimizerOverrides)
    # (loss_sum(parameters, rows), parameters, rows) -> mean loss, its gradients, their norm before clipping
    accumulate: Callable[..., tuple[Array, Any, Array]] | None = None
    sharding_rule: ShardingRule | None = None


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a run. `graph` is the static part of `(model, optimizer)`, the state is the rest."""

    graph: Any
    abstract_state: State  # shapes, dtypes and shardings
    init: Callable[..., State]  # takes a seed, by default that of the config
    train_step: Callable[[State, Int[Array, "B W"]], tuple[State, StepMetrics]]
    eval_step: Callable[[State, Int[Array, "B W"]], tuple[Float[Array, ""], Int[Array, ""]]]

    def model(self, state: State) -> nnx.Module:
        """The model with the parameters of `state`, for evaluation and sampling."""
        return nnx.merge(self.graph, state)[0]


@dataclass(frozen=True)
class _Static:
    """What the step functions close over; none of it is traced."""

    config: Config
    overrides: Overrides
    build: Callable[[nnx.Rngs], nnx.Module]
    loss_sum: LossSum
    trained: type[nnx.Variable]  # the variables that are trained
    rate: optax.Schedule
    graph: Any = None


def make_step_functions(config: Config, mesh: Mesh, overrides: Overrides | None = None) -> StepFunctions:
    """The step functions of a run on `mesh`, from the harness's own code or from `overrides`."""
    overrides = overrides or Overrides()
    static = _Static(
        config,
        overrides,
        overrides.build or functools.partial(default_model, config),
        overrides.loss_sum or functools.partial(default_loss_sum, config, mesh),
        nnx.LoRAParam if config.lora_rank else nnx.Param,
        schedule(config, overrides.optimizer),
    )
    graph, shapes = nnx.split(nnx.eval_shape(functools.partial(_new_model, static), jax.random.key(config.seed)))
    static = replace(static, graph=graph)
    state_shardings = shardings(shapes, mesh, config.fsdp, overrides.sharding_rule)
    abstract_state = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, state_shardings
    )
    # Jitted with output shardings, so no device ever holds the whole state.
    init_sharded = jax.jit(functools.partial(_init_state, static), out_shardings=state_shardings)
    step: Callable[..., Any]
    if overrides.train_step is None:
        step = jax.jit(functools.partial(_train_step, static), donate_argnums=0, out_shardings=(state_shardings, None))
    else:
        step = functools.partial(_override_train_step, static)
    return StepFunctions(
        graph,
        abstract_state,
        lambda seed=config.seed: init_sharded(jax.random.key(seed)),
        step,
        jax.jit(functools.partial(_eval_step, static)),
    )


def default_model(config: Config, rngs: nnx.Rngs) -> nnx.Module:
    """The harness's own model, with adapters if `lora_rank` is set."""
    model = GPT(config, rngs)
    return add_adapters(model, config.lora_rank, rngs) if config.lora_rank else model


def default_loss_sum(config: Config, mesh: Mesh | None, model: Any, ids_BT, key) -> tuple[Array, Array]:
    """The chunked loss of the harness's own model."""
    inputs_BT = ids_BT[:, :-1]
    targets_BT = ids_BT[:, 1:] if config.objective == "next_token" else inputs_BT
    x_BTD = model.hidden(jnp.maximum(inputs_BT, 0), key)
    loss = token_loss(x_BTD, targets_BT, model.output(), config.loss_chunk, mesh)
    return loss, jnp.sum(targets_BT >= 0)


def _new_model(static: _Static, key: PRNGKeyArray) -> tuple[nnx.Module, nnx.Optimizer]:
    """A new model and its optimizer."""
    model = static.build(nnx.Rngs(key))
    transformation = make_optimizer(static.config, static.overrides.optimizer)
    return model, nnx.Optimizer(model, transformation, wrt=static.trained)


def _init_state(static: _Static, key: PRNGKeyArray) -> State:
    return nnx.state(_new_model(static, key))


def _train_step(static: _Static, state: State, ids_BT: Array) -> tuple[State, StepMetrics]:
    """One update, with the harness's gradients or those of an accumulation override."""
    config, accumulate = static.config, static.overrides.accumulate
    model, optimizer = nnx.merge(static.graph, state)
    key = jax.random.fold_in(jax.random.key(config.seed), optimizer.step[...]) if config.dropout else None
    if accumulate is None:
        loss, gradients = mean_gradients(
            static.loss_sum, model, ids_BT, key, config.grad_accumulation_steps, static.trained
        )
        norm = optax.tree.norm(gradients)
    else:
        parts: Any = nnx.split(model, static.trained, ...)
        graph, parameters, rest = parts

        def loss_sum(parameters, ids_BT):
            return static.loss_sum(nnx.merge(graph, parameters, rest), ids_BT, None)

        loss, gradients, norm = accumulate(loss_sum, parameters, ids_BT)
    rate = _next_rate(static, optimizer)
    optimizer.update(model, gradients)
    return nnx.state((model, optimizer)), StepMetrics(loss, rate, norm, skipped_updates(optimizer.opt_state))


def _override_train_step(static: _Static, state: State, ids_BT: Array) -> tuple[State, StepMetrics]:
    """One update by a train step override, which jits itself and reports no gradient norm."""
    assert static.overrides.train_step is not None
    model, optimizer = nnx.merge(static.graph, state)
    rate = _next_rate(static, optimizer)
    loss = static.overrides.train_step(model, optimizer, ids_BT, -1)
    skipped = skipped_updates(optimizer.opt_state)
    return nnx.state((model, optimizer)), StepMetrics(loss, rate, jnp.float32(jnp.nan), skipped)


def _eval_step(static: _Static, state: State, ids_BT: Array) -> tuple[Array, Array]:
    """The sum of the losses of a batch, and the number of its targets."""
    return static.loss_sum(nnx.merge(static.graph, state)[0], ids_BT, None)


def _next_rate(static: _Static, optimizer: nnx.Optimizer) -> Array:
    """The learning rate of the next update. Skipped updates do not advance the schedule."""
    return static.rate(optimizer.step[...] - skipped_updates(optimizer.opt_state))


def mean_gradients(
    loss_sum: LossSum,
    model: nnx.Module,
    ids_BT: Int[Array, "B W"],
    key: PRNGKeyArray | None,
    microbatches: int,
    trained: type[nnx.Variable] = nnx.Param,
) -> tuple[Float[Array, ""], Any]:
    """The mean loss of a batch and its gradients with respect to the `trained` variables.

    Processes `microbatches` parts in sequence, with the memory of one. Sums are accumulated and divided once, so every token
    has the same weight, and the result is independent of the number of parts up to rounding.
    """
    parts: Any = nnx.split(model, trained, ...)
    graph, parameters, rest = parts

    def total(parameters, ids_BT, key):
        return loss_sum(nnx.merge(graph, parameters, rest), ids_BT, key)

    gradient = jax.value_and_grad(total, has_aux=True)
    if microbatches == 1:
        (loss, count), gradients = gradient(parameters, ids_BT, key)
    else:
        # Microbatch i takes rows i, i + k, i + 2k, ..., so every device of a mesh keeps its own rows.
        rows = jnp.moveaxis(ids_BT.reshape(-1, microbatches, ids_BT.shape[1]), 1, 0)

        def add(sums, part):
            index, ids = part
            part_key = None if key is None else jax.random.fold_in(key, index)
            (loss, count), gradients = gradient(parameters, ids, part_key)
            return jax.tree.map(jnp.add, sums, (loss, count, gradients)), None

        zeros = (jnp.float32(0), jnp.int32(0), jax.tree.map(jnp.zeros_like, parameters))
        (loss, count, gradients), _ = jax.lax.scan(add, zeros, (jnp.arange(microbatches), rows))
    scale = 1 / jnp.maximum(count, 1).astype(jnp.float32)
    return loss * scale, jax.tree.map(lambda g: g * scale.astype(g.dtype), gradients)
