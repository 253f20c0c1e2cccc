"""The train step: what it is made of, its state, and its three jitted functions: init, train step, eval step.

A `Recipe` names the model, the loss, the gradients and the optimizer; the learner's pieces replace some of them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.config import Config
from harness.data.batches import FIRST, PADDING, UNLEARNED
from harness.model.general import make_gpt
from harness.model.lora import add_adapters
from harness.model.loss import token_loss
from harness.model.segments import Segments
from harness.training.optimizer import learning_rate, make_optimizer, of_updates, skipped_updates
from harness.training.sharding import AVERAGE, MODEL, ShardingRule, by_dotted_name, shardings

# (model, batch, dropout key or None) -> the sum of the losses of all targets, in nats, and their number; then, if there
# are any, sums of what else is measured, by name. The batch is rows (B, T + 1) of ids, or a tree of arrays whose first
# axis is B.
LossSum = Callable[[Any, Any, PRNGKeyArray | None], tuple[Any, ...]]
# (loss_sum, model, batch, dropout key or None) -> the mean loss, its gradients, their norm before clipping, and such
# means
Gradients = Callable[[LossSum, Any, Any, PRNGKeyArray | None], tuple[Any, ...]]


@dataclass(frozen=True)
class Recipe:
    """All that a train step is made of."""

    build: Callable[[nnx.Rngs], nnx.Module]
    loss_sum: LossSum
    validation_loss_sum: LossSum
    gradients: Gradients
    optimizer: optax.GradientTransformation
    learning_rate: optax.Schedule  # of each update, counting from 0 and without skipped ones
    trained: type[nnx.Variable] = nnx.Param
    updates: int = 1  # per batch, each with its share of the rows
    ema_decay: float = 0.0  # of the average of the parameters; 0: there is none
    sharding_rule: ShardingRule | None = None  # None: by the metadata of the parameters
    # (model, optimizer, rows) -> the loss and the norm of its gradients, in place of the whole step
    train_step: Callable[..., tuple[Array, Array]] | None = None


def default_recipe(config: Config, mesh: Mesh | None = None) -> Recipe:
    """The harness's own recipe."""
    trained = nnx.LoRAParam if config.lora_rank else nnx.Param
    return Recipe(
        build=functools.partial(default_model, config),
        loss_sum=functools.partial(default_loss_sum, config, mesh),
        validation_loss_sum=functools.partial(default_loss_sum, replace(config, mtp=0), mesh),
        gradients=functools.partial(mean_gradients, microbatches=config.grad_accumulation_steps, trained=trained),
        optimizer=make_optimizer(config),
        learning_rate=of_updates(config, learning_rate(config)),
        trained=trained,
        ema_decay=config.ema_decay,
    )


def default_model(config: Config, rngs: nnx.Rngs) -> nnx.Module:
    """The harness's own model, with adapters if `lora_rank` is set."""
    model = make_gpt(config.model, rngs)
    return add_adapters(model, config.lora_rank, config.adapted, rngs) if config.lora_rank else model


def default_loss_sum(config: Config, mesh: Mesh | None, model: Any, ids_BT, key) -> tuple[Any, ...]:
    """The chunked loss of the harness's own model; with `mtp`, and that of the token after the next, with its
    weight."""
    inputs_BT = ids_BT[:, :-1]
    targets_BT = ids_BT[:, 1:] if config.objective == "next_token" else inputs_BT
    segments = Segments.of(segment_ids(inputs_BT)) if config.packing == "segments" else None
    x_BTD = model.hidden(token_ids(inputs_BT), key, segments)
    loss, count = token_loss(x_BTD, targets_BT, model.output(), config.loss_chunk, mesh), jnp.sum(targets_BT >= 0)
    if not config.mtp:
        return loss, count
    ahead_BTD = model.ahead(x_BTD, token_ids(targets_BT), key, segments)
    ahead = token_loss(ahead_BTD, targets_after(targets_BT), model.output(), config.loss_chunk, mesh)
    return loss + config.mtp_weight * ahead, count, {"next_token_loss": loss, "mtp_loss": ahead}


def targets_after(targets_BT: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The token after each target; padding at the end of the row, and where a target begins another story."""
    after_BT = jnp.pad(targets_BT[:, 1:], ((0, 0), (0, 1)), constant_values=PADDING)
    return jnp.where(targets_BT <= FIRST, PADDING, after_BT)


def token_ids(rows_BT: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The tokens of rows of the data, learned or not; 0 where a row is padded."""
    unmarked_BT = jnp.where(rows_BT <= FIRST, FIRST - rows_BT, rows_BT)
    return jnp.where(unmarked_BT <= UNLEARNED, UNLEARNED - unmarked_BT, jnp.maximum(unmarked_BT, 0))


def segment_ids(rows_BT: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The stories of each row with `packing=segments`, counted from 1; 0 where it is padded."""
    return jnp.where(rows_BT == PADDING, 0, jnp.cumsum(rows_BT <= FIRST, axis=1, dtype=jnp.int32))


def mean_gradients(
    loss_sum: LossSum,
    model: nnx.Module,
    batch: Any,
    key: PRNGKeyArray | None,
    microbatches: int = 1,
    trained: type[nnx.Variable] = nnx.Param,
) -> tuple[Any, ...]:
    """The mean loss of a batch, its gradients with respect to the `trained` variables, and their global norm.

    Processes `microbatches` parts in sequence, with the memory of one. Sums are accumulated and divided once, so every
    token has the same weight, and the result is independent of the number of parts up to rounding. If the loss returns
    more sums, by name, their means come last.
    """
    parts: Any = nnx.split(model, trained, ...)
    graph, parameters, rest = parts

    def total(parameters, batch, key):
        loss, *sums = loss_sum(nnx.merge(graph, parameters, rest), batch, key)
        return loss, sums

    gradient = jax.value_and_grad(total, has_aux=True)
    if microbatches == 1:
        (loss, sums), gradients = gradient(parameters, batch, key)
    else:
        parts = interleaved(batch, microbatches)

        def add(sums, part):
            index, rows = part
            part_key = None if key is None else jax.random.fold_in(key, index)
            return jax.tree.map(jnp.add, sums, gradient(parameters, rows, part_key)), None

        first = jax.tree.map(lambda rows: rows[0], parts)
        zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(gradient, parameters, first, key))
        ((loss, sums), gradients), _ = jax.lax.scan(add, zeros, (jnp.arange(microbatches), parts))
    count, *more = sums
    scale = 1 / jnp.maximum(count, 1).astype(jnp.float32)
    mean: Any = jax.tree.map(lambda g: g * scale.astype(g.dtype), gradients)
    return loss * scale, mean, optax.tree.norm(mean), *(jax.tree.map(lambda each: each * scale, each) for each in more)


def interleaved(batch: Any, parts: int) -> Any:
    """The rows of a batch in `parts` parts: arrays `(parts, B / parts, ...)`.

    Part i takes rows i, i + parts, i + 2 parts, ..., so every device of a mesh keeps its own rows.
    """
    return jax.tree.map(lambda rows: jnp.moveaxis(rows.reshape(-1, parts, *rows.shape[1:]), 1, 0), batch)


# The NNX state of `(model, optimizer)`, and of a model with the average of the parameters if the recipe has one
State = Any


class Batch(NamedTuple):
    """The input of one train step."""

    arrays: Any  # on the devices, as the recipe's loss takes them
    targets: int | jax.Array  # in the rows of all processes, without padding
    metrics: dict[str, float]  # what else the line of metrics says about this step


class StepMetrics(NamedTuple):
    """Metrics of one step, still on the device."""

    loss: Float[Array, ""]  # before the update
    learning_rate: Float[Array, ""]
    gradient_norm: Float[Array, ""]  # before clipping
    skipped: Int[Array, ""]  # updates skipped since the start of the run
    more: dict[str, Float[Array, ""]]  # what else the loss measures, by name


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a run. `graph` is the static part of the state."""

    graph: Any
    abstract_state: State  # shapes, dtypes and shardings
    frozen: frozenset[str]  # dotted names of the parameters that training leaves as they are
    # Takes a seed, by default that of the config, and the dotted names of arrays that are not made and stay abstract.
    init: Callable[..., State]
    train_step: Callable[[State, Any], tuple[State, StepMetrics]]  # takes a batch of the recipe's loss
    eval_step: Callable[[State, Any], tuple[Any, ...]]  # returns what the recipe's loss does

    evaluated: int = MODEL  # the place of the model for evaluation and sampling

    @property
    def evaluated_names(self) -> str:
        """The beginning of the dotted names of that model's arrays."""
        return f"{self.evaluated}."

    def model(self, state: State) -> nnx.Module:
        """The model for evaluation and sampling."""
        return nnx.merge(self.graph, state)[self.evaluated]


def make_step_functions(config: Config, mesh: Mesh, recipe: Recipe | None = None) -> StepFunctions:
    """The step functions of a run on `mesh`, by the harness's own recipe or by another one."""
    recipe = recipe or default_recipe(config, mesh)
    graph, shapes = nnx.split(nnx.eval_shape(functools.partial(_new_model, recipe), jax.random.key(config.seed)))
    frozen = nnx.state(nnx.merge(graph, shapes)[0], nnx.All(nnx.Param, nnx.Not(recipe.trained)))
    zero1 = config.zero1 and recipe.train_step is None  # another step says itself where its state is
    state_shardings = shardings(shapes, mesh, config.fsdp, zero1, recipe.sharding_rule)
    abstract_state = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, state_shardings
    )
    abstract, places = by_dotted_name(abstract_state), by_dotted_name(state_shardings)

    @functools.cache
    def init_without(names: frozenset[str]) -> Any:
        def made(key: PRNGKeyArray) -> dict[str, Any]:
            state = by_dotted_name(nnx.state(_new_model(recipe, key)))
            return {name: leaf for name, leaf in state.items() if name not in names}

        # Jitted with output shardings, so no device ever holds the whole state.
        return jax.jit(made, out_shardings={name: place for name, place in places.items() if name not in names})

    def init(seed: int = config.seed, without: frozenset[str] = frozenset()) -> State:
        leaves = abstract | init_without(without)(jax.random.key(seed))
        return jax.tree.unflatten(jax.tree.structure(abstract_state), leaves.values())

    seed = config.seed if config.dropout else None
    step: Callable[..., Any]
    if recipe.train_step is None:
        step = functools.partial(_train_step, recipe, graph, seed)
        step = jax.jit(step, donate_argnums=0, out_shardings=(state_shardings, None))
    else:
        step = functools.partial(_override_train_step, recipe, graph)
    return StepFunctions(
        graph,
        abstract_state,
        frozenset(f"{model}.{name}" for name in by_dotted_name(frozen) for model in (MODEL, AVERAGE)),
        init,
        step,
        jax.jit(functools.partial(_eval_step, recipe, graph)),
        AVERAGE if recipe.ema_decay else MODEL,
    )


def _new_model(recipe: Recipe, key: PRNGKeyArray) -> tuple[Any, ...]:
    """A new model, its optimizer, and a copy of the model for the average."""
    model = recipe.build(nnx.Rngs(key))
    optimizer = nnx.Optimizer(model, recipe.optimizer, wrt=recipe.trained)
    return (model, optimizer, nnx.clone(model)) if recipe.ema_decay else (model, optimizer)


def _train_step(
    recipe: Recipe, graph: Any, dropout_seed: int | None, state: State, batch: Any
) -> tuple[State, StepMetrics]:
    """The updates of one batch: one, or several in sequence, each with its share of the rows. Metrics are their
    means."""
    if recipe.updates == 1:
        return _update(recipe, graph, dropout_seed, state, batch)
    update = functools.partial(_update, recipe, graph, dropout_seed)
    state, each = jax.lax.scan(update, state, interleaved(batch, recipe.updates))
    means: StepMetrics = jax.tree.map(jnp.mean, each)
    return state, means._replace(learning_rate=each.learning_rate[-1], skipped=each.skipped[-1])


def _update(
    recipe: Recipe, graph: Any, dropout_seed: int | None, state: State, batch: Any
) -> tuple[State, StepMetrics]:
    """One update."""
    model, optimizer, *average = nnx.merge(graph, state)
    key = None if dropout_seed is None else jax.random.fold_in(jax.random.key(dropout_seed), optimizer.step[...])
    loss, gradients, norm, *more = recipe.gradients(recipe.loss_sum, model, batch, key)
    rate = _next_rate(recipe, optimizer)
    with jax.named_scope("optimizer"):
        optimizer.update(model, gradients)
        for averaged in average:
            _update_average(recipe, averaged, model, optimizer.step[...])
    skipped = skipped_updates(optimizer.opt_state)
    metrics = StepMetrics(loss, rate, norm, skipped, {name: mean for means in more for name, mean in means.items()})
    return nnx.state((model, optimizer, *average)), metrics


def _update_average(recipe: Recipe, averaged: nnx.Module, model: nnx.Module, step: Array) -> None:
    """Moves the average towards the parameters. At first it moves faster, so that the random ones at the start do not
    weigh.

    The rule is that of TensorFlow's ExponentialMovingAverage with num_updates.
    """
    decay = jnp.minimum(recipe.ema_decay, (1 + step) / (10 + step))
    old, new = (nnx.state(each, recipe.trained) for each in (averaged, model))
    nnx.update(averaged, jax.tree.map(lambda o, n: o + (1 - decay).astype(o.dtype) * (n - o), old, new))


def _override_train_step(recipe: Recipe, graph: Any, state: State, ids_BT: Array) -> tuple[State, StepMetrics]:
    """One update by a train step of the recipe, which jits itself."""
    assert recipe.train_step is not None
    model, optimizer = nnx.merge(graph, state)
    rate = _next_rate(recipe, optimizer)
    loss, norm = recipe.train_step(model, optimizer, ids_BT)
    return nnx.state((model, optimizer)), StepMetrics(loss, rate, norm, skipped_updates(optimizer.opt_state), {})


def _eval_step(recipe: Recipe, graph: Any, state: State, batch: Any) -> tuple[Any, ...]:
    """The sum of the validation losses of a batch, the number of its targets, and what else the loss measures."""
    model = nnx.merge(graph, state)[AVERAGE if recipe.ema_decay else MODEL]
    return recipe.validation_loss_sum(model, batch, None)


def _next_rate(recipe: Recipe, optimizer: nnx.Optimizer) -> Array:
    """The learning rate of the next update. Skipped updates do not advance the schedule."""
    return recipe.learning_rate(optimizer.step[...] - skipped_updates(optimizer.opt_state))
