"""What training changes, and the three programs that do it: creation, one step, one validation batch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.config import Config
from harness.model.gpt import GPT
from harness.model.lora import adapted
from harness.model.loss import token_loss
from harness.training.optimizer import OptimizerParts, make_optimizer, schedule, skipped_updates
from harness.training.sharding import Spec, shardings

# (model, rows (B, T + 1) of ids, dropout key or None) -> the sum of the losses of all targets, in nats, and their number.
LossSum = Callable[[nnx.Module, Array, PRNGKeyArray | None], tuple[Array, Array]]


class StepMetrics(NamedTuple):
    """Of one step, still on the device. The loss is of before the update, the norm of before clipping."""

    loss: Float[Array, ""]
    learning_rate: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    skipped: Int[Array, ""]  # updates, since the run began


@dataclass(frozen=True)
class Programs:
    """A run's compiled programs. State is the NNX state of `(model, optimizer)`; `graph` is the rest of them."""

    graph: Any
    abstract: Any  # shapes, dtypes and shardings of the state
    create: Callable[..., Any]  # of another seed than the config's, if one is given
    step: Callable[[Any, Int[Array, "B W"]], tuple[Any, StepMetrics]]
    evaluate: Callable[[Any, Int[Array, "B W"]], tuple[Float[Array, ""], Int[Array, ""]]]

    def model(self, state: Any) -> nnx.Module:
        """The model with the state's parameters, for evaluation and sampling."""
        return nnx.merge(self.graph, state)[0]


@dataclass(frozen=True)
class Theirs:
    """Somebody else's code in place of the harness's own, where it is not None."""

    build: Callable[[nnx.Rngs], nnx.Module] | None = None
    loss_sum: LossSum | None = None
    step: Callable[..., Array] | None = None  # (model, optimizer, rows, pad_id) -> loss
    optimizer: OptimizerParts = field(default_factory=OptimizerParts)
    # (loss_sum(parameters, rows), parameters, rows) -> mean loss, its gradients, their norm before clipping
    accumulate: Callable[..., tuple[Array, Any, Array]] | None = None
    spec: Spec | None = None


def own_loss(config: Config, mesh: Mesh | None) -> LossSum:
    """The chunked loss of the harness's own model."""

    def loss_sum(model: Any, ids_BT, key):
        inputs_BT = ids_BT[:, :-1]
        targets_BT = ids_BT[:, 1:] if config.task == "next" else inputs_BT
        x_BTD = model.hidden(jnp.maximum(inputs_BT, 0), key)
        loss = token_loss(x_BTD, targets_BT, model.output(), config.loss_chunk, mesh)
        return loss, jnp.sum(targets_BT >= 0)

    return loss_sum


def own_model(config: Config) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds the harness's own model, with adapters if the config asks for them."""

    def build(rngs: nnx.Rngs) -> nnx.Module:
        model = GPT(config, rngs)
        return adapted(model, config.lora_rank, rngs) if config.lora_rank else model

    return build


def make_programs(config: Config, mesh: Mesh, theirs: Theirs | None = None) -> Programs:
    """The programs of a run on `mesh`, made of the harness's own code or of `theirs`."""
    theirs = theirs or Theirs()
    build = theirs.build or own_model(config)
    trained = nnx.LoRAParam if config.lora_rank else nnx.Param
    loss_sum = theirs.loss_sum or own_loss(config, mesh)

    def fresh(key: PRNGKeyArray) -> tuple[nnx.Module, nnx.Optimizer]:
        model = build(nnx.Rngs(key))
        return model, nnx.Optimizer(model, make_optimizer(config, theirs.optimizer), wrt=trained)

    graph, shapes = nnx.split(nnx.eval_shape(fresh, jax.random.key(config.seed)))
    places = shardings(shapes, mesh, config.fsdp, theirs.spec)
    abstract = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, places
    )
    born = jax.jit(lambda key: nnx.state(fresh(key)), out_shardings=places)  # never whole on one device

    def create(seed: int = config.seed) -> Any:
        return born(jax.random.key(seed))

    rate = schedule(config, theirs.optimizer)

    def rate_of(optimizer: nnx.Optimizer) -> Array:
        """Of the update that comes next: the schedule counts those that were not skipped."""
        return rate(optimizer.step[...] - skipped_updates(optimizer.opt_state))

    def own_step(state: Any, ids_BT: Array) -> tuple[Any, StepMetrics]:
        model, optimizer = nnx.merge(graph, state)
        key = jax.random.fold_in(jax.random.key(config.seed), optimizer.step[...]) if config.dropout else None
        if theirs.accumulate is None:
            loss, gradients = mean_gradients(loss_sum, model, ids_BT, key, config.accumulate, trained)
            norm = optax.tree.norm(gradients)
        else:
            parts: Any = nnx.split(model, trained, ...)
            inner, parameters, rest = parts
            sums = lambda parameters, ids: loss_sum(nnx.merge(inner, parameters, rest), ids, None)  # noqa: E731
            loss, gradients, norm = theirs.accumulate(sums, parameters, ids_BT)
        done = rate_of(optimizer)
        optimizer.update(model, gradients)
        return nnx.state((model, optimizer)), StepMetrics(loss, done, norm, skipped_updates(optimizer.opt_state))

    def piece_step(state: Any, ids_BT: Array) -> tuple[Any, StepMetrics]:
        assert theirs.step is not None
        model, optimizer = nnx.merge(graph, state)
        done = rate_of(optimizer)
        loss = theirs.step(model, optimizer, ids_BT, -1)
        skipped = skipped_updates(optimizer.opt_state)
        return nnx.state((model, optimizer)), StepMetrics(loss, done, jnp.float32(jnp.nan), skipped)

    def evaluate(state: Any, ids_BT: Array) -> tuple[Array, Array]:
        return loss_sum(nnx.merge(graph, state)[0], ids_BT, None)

    whole = jax.jit(own_step, donate_argnums=0, out_shardings=(places, None))
    return Programs(graph, abstract, create, whole if theirs.step is None else piece_step, jax.jit(evaluate))


def mean_gradients(
    loss_sum: LossSum,
    model: nnx.Module,
    ids_BT: Int[Array, "B W"],
    key: PRNGKeyArray | None,
    microbatches: int,
    trained: type[nnx.Variable] = nnx.Param,
) -> tuple[Float[Array, ""], Any]:
    """The mean loss of a batch and its gradients with respect to the `trained` variables, from `microbatches` parts one after
    the other, with the memory of one.

    Sums are accumulated and divided once, so that parts with more padding do not count for more, and the result does not
    depend on their number but for rounding.
    """
    parts: Any = nnx.split(model, trained, ...)
    graph, parameters, rest = parts

    def total(parameters, ids_BT, key):
        return loss_sum(nnx.merge(graph, parameters, rest), ids_BT, key)

    gradient = jax.value_and_grad(total, has_aux=True)
    if microbatches == 1:
        (loss, count), gradients = gradient(parameters, ids_BT, key)
    else:
        # Rows j, j + k, ...: each device of a mesh keeps its own.
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
