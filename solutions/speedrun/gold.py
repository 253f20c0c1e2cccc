"""The speedrun, gold: short rows for a model of width 32, and tokens that join a word to the mark after it."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from p09_adamw import adamw
from p10_lr_schedule import warmup_stable_decay
from p46_muon import muon

STEPS, BATCH, T = 200, 8, 32
D, F, HEADS = 32, 64, 2
TOKENS = 1200
TINY = 1e-6

RATE = warmup_stable_decay(1.0, 3, STEPS // 3, STEPS)
OPTIMIZER = muon(0.06, 0.95, 0.0, rest=adamw(0.06, 0.8, 0.95, 1e-8, 0.0))  # times the schedule


def settings() -> dict[str, Any]:
    """Rows are full: a story begins where the one before ends."""
    return {"steps": STEPS, "batch": BATCH, "context": T, "packing": "packed", "tokens": TOKENS}


def vocabulary(stories: Sequence[str], V: int) -> list[bytes]:
    """The zero byte, the letters, and the words that occur most often, each with the marks that follow it."""
    letters = {letter.encode() for story in stories for letter in story}
    pattern = r"\s*\w+[^\w\s\0]*\0?|[^\w\s]+|\s+"
    words = Counter(word.encode() for story in stories for word in re.findall(pattern, story + "\0"))
    common = [word for word, _ in words.most_common() if len(word) <= 16]
    return list(dict.fromkeys([b"\0", *sorted(letters), *common]))[:V]


def init(key: jax.Array, V: int) -> Any:
    """One block. Kernels are the parameters that Muon updates."""
    shapes = {"qkv_kernel": (D, 3 * D), "out_kernel": (D, D), "ff1_kernel": (D, F), "ff2_kernel": (F, D)}
    keys = dict(zip([*shapes, "tokens"], jax.random.split(key, len(shapes) + 1), strict=True))
    kernels = {name: jax.random.normal(keys[name], shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    tables = {"tokens": 0.1 * jax.random.normal(keys["tokens"], (V, D)), "positions": jnp.zeros((T, D))}
    parameters = kernels | tables | {name: jnp.ones(D) for name in ("norm1", "norm2", "norm3")}
    return {"parameters": parameters, "optimizer": OPTIMIZER.init(parameters)}


def normalized(x: jax.Array, scale: jax.Array) -> jax.Array:
    """An RMS norm."""
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + TINY)


def forward(p: Any, tokens: jax.Array, segments: jax.Array) -> jax.Array:
    """The logits (B, T, V). A token sees its own story up to itself."""
    B, length = tokens.shape
    sees = jnp.tril(jnp.ones((length, length), bool)) & (segments[:, :, None] == segments[:, None])
    x = p["tokens"][tokens] + p["positions"][:length]
    q, k, v = jnp.split((normalized(x, p["norm1"]) @ p["qkv_kernel"]).reshape(B, length, 3 * HEADS, -1), 3, axis=2)
    scores = jnp.einsum("bthk,bshk->bhts", q * (D // HEADS) ** -0.5, k)
    weights = jax.nn.softmax(jnp.where(sees[:, None], scores, -1e9))
    x += jnp.einsum("bhts,bshk->bthk", weights, v).reshape(x.shape) @ p["out_kernel"]
    x += jax.nn.relu(normalized(x, p["norm2"]) @ p["ff1_kernel"]) @ p["ff2_kernel"]
    return normalized(x, p["norm3"]) @ p["tokens"].T


def step(state: Any, tokens: jax.Array, segments: jax.Array, number: jax.Array) -> tuple[Any, jax.Array]:
    """A step on the targets of the same story."""
    counts = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)

    def mean_loss(parameters: Any) -> jax.Array:
        predicted = forward(parameters, tokens[:, :-1], segments[:, :-1])
        losses = optax.softmax_cross_entropy_with_integer_labels(predicted, tokens[:, 1:])
        return jnp.sum(losses * counts) / jnp.sum(counts)

    loss, gradients = jax.value_and_grad(mean_loss)(state["parameters"])
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"], state["parameters"])
    updates = jax.tree.map(lambda update: RATE(number) * update, updates)
    return {"parameters": optax.apply_updates(state["parameters"], updates), "optimizer": optimizer}, loss


def logits(state: Any, tokens: jax.Array, segments: jax.Array) -> jax.Array:
    """The logits (B, T, V) of the next token."""
    return forward(state["parameters"], tokens, segments)
