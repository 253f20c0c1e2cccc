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
from harness.training.recipe import Recipe, default_recipe
from harness.training.sharding import by_dotted_name, shardings

# The NNX state of `(model, optimizer)`
State = Any
MODEL = "0."  # the beginning of the dotted names of the model


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


@dataclass(frozen=True)
class StepFunctions:
    """The functions of a run. `graph` is the static part of `(model, optimizer)`, the state is the rest."""

    graph: Any
    abstract_state: State  # shapes, dtypes and shardings
    frozen: frozenset[str]  # dotted names of the parameters that training leaves as they are
    init: Callable[..., State]  # takes a seed, by default that of the config
    train_step: Callable[[State, Any], tuple[State, StepMetrics]]  # takes a batch of the recipe's loss
    eval_step: Callable[[State, Any], tuple[Float[Array, ""], Int[Array, ""]]]

    def model(self, state: State) -> nnx.Module:
        """The model with the parameters of `state`, for evaluation and sampling."""
        return nnx.merge(self.graph, state)[0]


def make_step_functions(config: Config, mesh: Mesh, recipe: Recipe | None = None) -> StepFunctions:
    """The step functions of a run on `mesh`, by the harness's own recipe or by another one."""
    recipe = recipe or default_recipe(config, mesh)
    graph, shapes = nnx.split(nnx.eval_shape(functools.partial(_new_model, recipe), jax.random.key(config.seed)))
    frozen = nnx.state(nnx.merge(graph, shapes)[0], nnx.All(nnx.Param, nnx.Not(recipe.trained)))
    state_shardings = shardings(shapes, mesh, config.fsdp, recipe.sharding_rule)
    abstract_state = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, state_shardings
    )
    # Jitted with output shardings, so no device ever holds the whole state.
    init_sharded = jax.jit(lambda key: nnx.state(_new_model(recipe, key)), out_shardings=state_shardings)
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
        frozenset(f"{MODEL}{name}" for name in by_dotted_name(frozen)),
        lambda seed=config.seed: init_sharded(jax.random.key(seed)),
        step,
        jax.jit(functools.partial(_eval_step, recipe, graph)),
    )


def _new_model(recipe: Recipe, key: PRNGKeyArray) -> tuple[nnx.Module, nnx.Optimizer]:
    """A new model and its optimizer."""
    model = recipe.build(nnx.Rngs(key))
    return model, nnx.Optimizer(model, recipe.optimizer, wrt=recipe.trained)


def _train_step(
    recipe: Recipe, graph: Any, dropout_seed: int | None, state: State, batch: Any
) -> tuple[State, StepMetrics]:
    """One update."""
    model, optimizer = nnx.merge(graph, state)
    key = None if dropout_seed is None else jax.random.fold_in(jax.random.key(dropout_seed), optimizer.step[...])
    loss, gradients, norm = recipe.gradients(recipe.loss_sum, model, batch, key)
    rate = _next_rate(recipe, optimizer)
    with jax.named_scope("optimizer"):
        optimizer.update(model, gradients)
    return nnx.state((model, optimizer)), StepMetrics(loss, rate, norm, skipped_updates(optimizer.opt_state))


def _override_train_step(recipe: Recipe, graph: Any, state: State, ids_BT: Array) -> tuple[State, StepMetrics]:
    """One update by a train step of the recipe, which jits itself and reports no gradient norm."""
    assert recipe.train_step is not None
    model, optimizer = nnx.merge(graph, state)
    rate = _next_rate(recipe, optimizer)
    loss = recipe.train_step(model, optimizer, ids_BT, -1)
    skipped = skipped_updates(optimizer.opt_state)
    return nnx.state((model, optimizer)), StepMetrics(loss, rate, jnp.float32(jnp.nan), skipped)


def _eval_step(recipe: Recipe, graph: Any, state: State, batch: Any) -> tuple[Array, Array]:
    """The sum of the validation losses of a batch, and the number of its targets."""
    return recipe.validation_loss_sum(nnx.merge(graph, state)[0], batch, None)


def _next_rate(recipe: Recipe, optimizer: nnx.Optimizer) -> Array:
    """The learning rate of the next update. Skipped updates do not advance the schedule."""
    return recipe.learning_rate(optimizer.step[...] - skipped_updates(optimizer.opt_state))
