"""The small language model that training probes hand to a submission. Ours, so that a train step is graded by itself."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from grader.leaves import fill_module, fill_state


class ToyLM(nnx.Module):
    """An embedding, a hidden layer and a head. `temperature` is state that is not to be trained.

    `traces` counts how often Python runs the forward pass: once a compilation under jit, once a call without.
    """

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs):
        zeros = nnx.initializers.zeros_init()  # the values are overwritten: drawing them would only take time
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=zeros, rngs=rngs)
        self.ff = nnx.Linear(d_model, d_ff, kernel_init=zeros, rngs=rngs)
        self.head = nnx.Linear(d_ff, vocab_size, kernel_init=zeros, rngs=rngs)
        self.temperature = nnx.Variable(jnp.asarray(2.0))
        self.traces = Counter()

    def __call__(self, token_ids: jax.Array) -> jax.Array:
        """token_ids: (T,). Returns logits, (T, V)."""
        self.traces.count += 1
        return self.head(nnx.relu(self.ff(self.embed(token_ids)))) / self.temperature[...]


class Counter:
    """A number that jit does not see. Equal to any other, so that it never causes a compilation."""

    def __init__(self) -> None:
        self.count = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter)

    def __hash__(self) -> int:
        return 0


def maker(vocab_size: int, d_model: int, d_ff: int) -> Callable[[], tuple[ToyLM, nnx.Optimizer[ToyLM]]]:
    """A function that makes a fresh model and an AdamW for it."""

    def make() -> tuple[ToyLM, nnx.Optimizer[ToyLM]]:
        model = ToyLM(vocab_size, d_model, d_ff, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adamw(0.02), wrt=nnx.Param)

    return make


def used(make: Callable[[], tuple[ToyLM, nnx.Optimizer[ToyLM]]], seed: int) -> tuple[ToyLM, nnx.Optimizer[ToyLM]]:
    """A model and optimizer as they might be in the middle of training: no leaf has its initial value."""
    model, optimizer = make()
    fill_module(model, seed)
    model.temperature[...] = jnp.asarray(1.5)
    state = nnx.state(optimizer)
    filled = jax.tree.map(lambda new, old: abs(new) if old.ndim else old + 3, fill_state(state, seed), state)
    nnx.update(optimizer, jax.tree.map(jnp.asarray, filled))
    return model, optimizer
