"""The trained model, tuned by a loss of a learner's, which sees only what the model returns."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

Read = Callable[[nnx.Module, Any], jax.Array]  # what the loss sees of a model on a batch


class Tuner:
    """Adam steps on a model. `read` gives what a loss sees of it; only that is compiled, so a loss need not be.

    `model` always has the current parameters.
    """

    def __init__(self, model: nnx.Module, read: Read, learning_rate: float) -> None:
        self._graph, self._state = nnx.split(model)
        self._tx = optax.adam(learning_rate)
        self._moments = self._tx.init(self._state)
        self._read = jax.jit(lambda state, batch: read(nnx.merge(self._graph, state), batch))
        self._step = jax.jit(functools.partial(_step, self._read, self._tx))

    @property
    def model(self) -> Any:
        """The model as it is now."""
        return nnx.merge(self._graph, self._state)

    def read(self, batch: Any) -> jax.Array:
        """What the loss sees of the model now."""
        return self._read(self._state, batch)

    def step(self, batch: Any, loss: Callable[[jax.Array], jax.Array]) -> float:
        """One step down the gradient of a loss of what is read on the batch. Returns the loss before it."""
        value, gradient = jax.value_and_grad(loss)(self.read(batch))
        self._state, self._moments = self._step(self._state, self._moments, batch, gradient)
        return float(value)


def _step(read: Any, tx: Any, state: Any, moments: Any, batch: Any, gradient: jax.Array) -> Any:
    (slopes,) = jax.vjp(lambda state: read(state, batch), state)[1](gradient)
    updates, moments = tx.update(slopes, moments, state)
    return optax.apply_updates(state, updates), moments


def target_log_probabilities(model: nnx.Module, ids_BT: jax.Array | np.ndarray) -> jax.Array:
    """The log-probability of each token after the first by a model of one story, (B, T - 1)."""
    log_BTV = jax.nn.log_softmax(model(ids_BT)[:, :-1])
    return jnp.take_along_axis(log_BTV, ids_BT[:, 1:, None], axis=2)[:, :, 0]
