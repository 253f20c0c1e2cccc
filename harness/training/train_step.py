"""The train state and its three jitted functions: init, train step, eval step."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.config import Config
from harness.training.optimizer import skipped_updates
from harness.training.recipe import Recipe, default_recipe, interleaved
from harness.training.sharding import AVERAGE, MODEL, by_dotted_name, shardings

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
