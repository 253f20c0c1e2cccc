"""The speedrun, reference beaten: the model of problem 32 with Muon, which needs fewer steps."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from p06_mini_gpt import MiniGPT
from p07_next_token_loss import next_token_loss
from p09_adamw import adamw
from p10_lr_schedule import warmup_cosine
from p46_muon import muon

STEPS, BATCH, T = 150, 8, 64
D, HEADS, LAYERS = 64, 2, 2
TOKENS = 1008
PADDING = -1


def settings() -> dict[str, Any]:
    """The steps of a run, the rows of a batch, the targets of a row, and how stories become rows."""
    return {"steps": STEPS, "batch": BATCH, "context": T, "packing": "padded", "tokens": TOKENS}


def vocabulary(stories: Sequence[str], V: int) -> list[bytes]:
    """The zero byte, the letters, and the words that occur most often."""
    letters = {letter.encode() for story in stories for letter in story}
    words = Counter(word.encode() for story in stories for word in re.findall(r" ?\w+|[^\w\s]+|\s+", story))
    return [b"\0", *dict.fromkeys([*sorted(letters), *(word for word, _ in words.most_common())])][:V]


def model_of(parameters: Any) -> Any:
    """The model with these parameters."""
    V = len(parameters["embed"]["embedding"][...])
    graph = nnx.split(nnx.eval_shape(lambda: make_model(V, nnx.Rngs(0))))[0]
    return nnx.merge(graph, parameters)


def make_model(V: int, rngs: nnx.Rngs) -> MiniGPT:
    """A new model."""
    return MiniGPT(V, D, HEADS, 2 * D, LAYERS, max_T=T + 1, rngs=rngs)


RATE = warmup_cosine(1.0, 10, STEPS)
OPTIMIZER = muon(0.03, 0.95, 0.0, rest=adamw(0.04, 0.9, 0.95, 1e-8, 0.0))  # times the schedule


def init(key: jax.Array, V: int) -> Any:
    """The parameters, and the state of the optimizer."""
    parameters = nnx.state(make_model(V, nnx.Rngs(key)), nnx.Param)
    return {"parameters": parameters, "optimizer": OPTIMIZER.init(parameters)}


def step(state: Any, tokens: jax.Array, segments: jax.Array, number: jax.Array) -> tuple[Any, jax.Array]:
    """The state after a step on rows of T + 1 ids, and the loss before it, which is shown while the run goes on."""
    ids = jnp.where(segments > 0, tokens, PADDING)

    def mean_loss(parameters: Any) -> jax.Array:
        logits = jax.vmap(model_of(parameters))(jnp.maximum(ids, 0))
        return jnp.mean(jax.vmap(next_token_loss, (0, 0, None))(logits, ids, PADDING))

    loss, gradients = jax.value_and_grad(mean_loss)(state["parameters"])
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"], state["parameters"])
    updates = jax.tree.map(lambda update: RATE(number) * update, updates)
    return {"parameters": optax.apply_updates(state["parameters"], updates), "optimizer": optimizer}, loss


def logits(state: Any, tokens: jax.Array, segments: jax.Array) -> jax.Array:
    """The logits (B, T, V) of the next token. Those at a position may depend on the row up to it, and on nothing
    else."""
    return jax.vmap(model_of(state["parameters"]))(tokens)
