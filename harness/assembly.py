"""What a run is made of when pieces are used: their model, their loss, their optimizer, in place of the harness's.

Pieces are written for one example and are batched here with `jax.vmap`. Rows are `T + 1` ids with -1 for padding; a piece sees
them whole, so a model that is made with pieces has one position more, and -1 is its `pad_id`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array

from harness.config import Config
from harness.data import Windows
from harness.errors import UsageError
from harness.model import GPT, Parts
from harness.optimizer import OptimizerParts
from harness.pieces import Pieces, blame
from harness.state import LossSum, Theirs
from harness.trials import PAD_ID


class _Batched(nnx.Module):
    """A piece for one example as a part for many."""

    def __init__(self, piece: nnx.Module):
        self.piece = piece

    def __call__(self, x: Array, *_: Any) -> tuple[Array, None]:
        return jax.vmap(self.piece)(x), None


class _BatchedEmbed(nnx.Module):
    """The embedding of one story as one of many."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self, ids_BT: Array) -> Array:
        return jax.vmap(self.piece)(ids_BT)

    def table(self) -> nnx.Param:
        """The token vectors, for a tied head: the course's `embed`, an `nnx.Embed`."""
        return self.piece.embed.embedding


def model_builder(config: Config, pieces: Pieces) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds the model of a run with pieces: their whole model, or the harness's with their parts in it."""
    c = replace(config, context=config.context + 1)
    found = pieces.found
    if "MiniGPT" in found:
        model = found["MiniGPT"]
        return lambda rngs: model(
            c.vocab_size, c.d_model, c.num_heads, c.d_ff, c.num_layers, max_T=c.context, rngs=rngs
        )
    attention, block, embed = (found.get(name) for name in ("CausalMHA", "GPTBlock", "TokenAndPositionEmbed"))
    parts = Parts(
        attention=attention and (lambda config, rngs: _Batched(attention(c.d_model, c.num_heads, rngs=rngs))),
        block=block and (lambda config, rngs: _Batched(block(c.d_model, c.num_heads, c.d_ff, rngs=rngs))),
        embed=embed and (lambda config, rngs: _BatchedEmbed(embed(c.vocab_size, c.context, c.d_model, rngs=rngs))),
    )
    return lambda rngs: GPT(c, rngs, parts)


def piece_loss(pieces: Pieces) -> LossSum:
    """The loss of rows through a model that gives logits. A mean over a story's targets is weighed with their number."""
    one_story = pieces.found.get("next_token_loss", _mean_cross_entropy)

    def loss_sum(model: nnx.Module, ids_BT: Array, key: Any) -> tuple[Array, Array]:
        del key  # pieces have no dropout
        logits_BTV = jax.vmap(model)(ids_BT)
        losses_B = jax.vmap(lambda logits, ids: one_story(logits, ids, PAD_ID))(logits_BTV, ids_BT)
        counts_B = jnp.sum(ids_BT[:, 1:] != PAD_ID, axis=1)
        return jnp.sum(losses_B * counts_B.astype(losses_B.dtype)), jnp.sum(counts_B)

    return loss_sum


def _mean_cross_entropy(logits_TV: Array, ids_T: Array, pad_id: int) -> Array:
    targets = ids_T[1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_TV[:-1], jnp.maximum(targets, 0))
    return jnp.sum(losses * (targets != pad_id)) / jnp.maximum(jnp.sum(targets != pad_id), 1)


def theirs(config: Config, pieces: Pieces) -> Theirs:
    """What of a run is the workspace's: its whole step, or its accumulation where a batch comes in parts."""
    found = pieces.found
    accumulated: Any = found.get("accumulated_gradients") if config.accumulate > 1 else None

    def accumulate(loss_sum: Any, parameters: Any, ids_BT: Array) -> tuple[Array, Any, Array]:
        return accumulated(loss_sum, parameters, ids_BT, config.accumulate, config.clip_norm or math.inf)

    parts = OptimizerParts(
        schedule=found.get("warmup_cosine"),
        adamw=found.get("adamw"),
        # Their accumulation clips what it has gathered, so nothing is left to clip.
        clip=_no_clip if accumulated else found.get("clip_by_global_norm"),
        guard=found.get("finite_guard"),
    )
    return Theirs(
        model_builder(config, pieces),
        piece_loss(pieces),
        found.get("train_step") if config.accumulate == 1 else None,
        parts,
        accumulate if accumulated else None,
    )


def loader(config: Config, pieces: Pieces, rows: Windows | np.ndarray, process: int, processes: int) -> Any:
    """Their pipeline over all windows that divide into batches."""
    if config.batch_size % processes:
        raise UsageError(f"{processes} processes cannot share a batch of {config.batch_size} evenly.")
    count = len(rows) // config.batch_size * config.batch_size
    table = np.stack([rows[index] for index in range(count)])
    per_process = config.batch_size // processes
    return blame(pieces, lambda: pieces.found["make_loader"](table, per_process, config.seed, process, processes))


def _no_clip(gradients: Any, max_norm: float) -> tuple[Any, Array]:
    return gradients, optax.tree.norm(gradients)
