"""The recipe of a run: the model, the loss, the gradients, the optimizer. The learner's pieces replace some of them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Int, PRNGKeyArray

from harness.config import Config
from harness.data.batches import FIRST, PADDING, UNLEARNED
from harness.model.gpt import GPT
from harness.model.lora import add_adapters
from harness.model.loss import token_loss
from harness.model.segments import Segments
from harness.training.optimizer import learning_rate, make_optimizer, of_updates
from harness.training.sharding import ShardingRule

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
    loss_sum = functools.partial(default_loss_sum, config, mesh)
    return Recipe(
        build=functools.partial(default_model, config),
        loss_sum=loss_sum,
        validation_loss_sum=loss_sum,
        gradients=functools.partial(mean_gradients, microbatches=config.grad_accumulation_steps, trained=trained),
        optimizer=make_optimizer(config),
        learning_rate=of_updates(config, learning_rate(config)),
        trained=trained,
        ema_decay=config.ema_decay,
    )


def default_model(config: Config, rngs: nnx.Rngs) -> nnx.Module:
    """The harness's own model, with adapters if `lora_rank` is set."""
    model = GPT(config.model, rngs)
    return add_adapters(model, config.lora_rank, config.adapted, rngs) if config.lora_rank else model


def default_loss_sum(config: Config, mesh: Mesh | None, model: Any, ids_BT, key) -> tuple[Array, Array]:
    """The chunked loss of the harness's own model."""
    inputs_BT = ids_BT[:, :-1]
    targets_BT = ids_BT[:, 1:] if config.objective == "next_token" else inputs_BT
    segments = Segments.of(segment_ids(inputs_BT)) if config.packing == "segments" else None
    x_BTD = model.hidden(token_ids(inputs_BT), key, segments)
    loss = token_loss(x_BTD, targets_BT, model.output(), config.loss_chunk, mesh)
    return loss, jnp.sum(targets_BT >= 0)


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
