"""What a run is made of when pieces are used: their model, their loss, their optimizer, in place of the harness's.

Pieces are written for one example and are batched here with `jax.vmap`. Rows are `T + 1` ids with -1 for padding; a piece sees
them whole, so a model that is made with pieces has one position more, and -1 is its `pad_id`.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PRNGKeyArray

from harness.config import Config
from harness.data.batches import PADDING, Rows
from harness.data.token_files import Tokens
from harness.errors import UsageError
from harness.model import lora
from harness.model.gpt import GPT, Parts
from harness.model.sampling import Choose, Sampling, WindowDecoder, choose, generate
from harness.pieces.load import Pieces, blame
from harness.pieces.registry import PAD_ID
from harness.training.optimizer import OptimizerParts
from harness.training.sharding import Spec, path_names
from harness.training.train_step import LossSum, Theirs


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
    """Builds the model of a run with pieces: their whole model, or the harness's with their parts in it; with adapters if the
    config asks for them."""
    plain = _plain_builder(config, pieces)
    if not config.lora_rank:
        return plain
    make = pieces.found.get("LoRALinear", lora.LoRALinear)
    return lambda rngs: lora.adapted(plain(rngs), config.lora_rank, rngs, make)


def _plain_builder(config: Config, pieces: Pieces) -> Callable[[nnx.Rngs], nnx.Module]:
    c = replace(config, context=config.context + 1)
    found = pieces.found
    if "MiniGPT" in found:
        model = found["MiniGPT"]
        return lambda rngs: model(
            c.vocab_size, c.d_model, c.num_heads, c.d_ff, c.num_layers, max_T=c.context, rngs=rngs
        )
    attention, block, embed = (found.get(name) for name in ("CausalMHA", "GPTBlock", "TokenAndPositionEmbed"))
    if attention or block:
        # Theirs begin as Flax's layers do; beside GPT-2's small embeddings they would drown what a token says.
        c = replace(c, init="xavier")
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
        _spec(config, pieces),
    )


def _spec(config: Config, pieces: Pieces) -> Spec | None:
    """Their rule of where an array lies. They know parameters by their names in MiniGPT, and moments lie where theirs do."""
    found: Any = pieces.found
    if config.fsdp:
        fsdp = found.get("fsdp_spec")
        return fsdp and (lambda names, shape, mesh: fsdp(shape, mesh.shape["data"]))
    if not {"partition_spec", "MiniGPT"} <= set(found):
        return None
    model = nnx.eval_shape(lambda: model_builder(config, pieces)(nnx.Rngs(0)))
    known = {path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(nnx.state(model))}

    def spec(names: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
        own = next((names[start:] for start in range(len(names)) if names[start:] in known), None)
        return found["partition_spec"](".".join(own), shape, mesh) if own else PartitionSpec()

    return spec


def packed(config: Config, pieces: Pieces, tokens: Tokens) -> np.ndarray:
    """Windows of `context + 1` ids by their `pack`: of all stories in one row, or of each by itself."""
    ends = [0, *tokens.ends.tolist()] if config.form == "padded" else [0, len(tokens)]
    width = config.context + 1

    def pack() -> list[np.ndarray]:
        spans = (tokens[start:stop].astype(np.int32) for start, stop in itertools.pairwise(ends))
        return [np.asarray(pieces.found["pack"](ids, width, PADDING), np.int32) for ids in spans]

    return np.concatenate(blame(pieces, pack))


def loader(config: Config, pieces: Pieces, rows: Rows, process: int, processes: int) -> Any:
    """Their pipeline over all windows that divide into batches."""
    if config.batch_size % processes:
        raise UsageError(f"{processes} processes cannot share a batch of {config.batch_size} evenly.")
    count = len(rows) // config.batch_size * config.batch_size
    table = rows[:count] if isinstance(rows, np.ndarray) else np.stack([rows[index] for index in range(count)])
    per_process = config.batch_size // processes
    return blame(pieces, lambda: pieces.found["make_loader"](table, per_process, config.seed, process, processes))


def _no_clip(gradients: Any, max_norm: float) -> tuple[Any, Array]:
    return gradients, optax.tree.norm(gradients)


def tokens(
    config: Config, pieces: Pieces, model: Any, ids: list[int], sampling: Sampling, end: int, number: int
) -> Iterator[int]:
    """The tokens that follow `ids`, until `end`: by their cached step, by their loop, or by ours with what they choose."""
    found = pieces.found
    chosen = _choice(found["sampling_distribution"]) if "sampling_distribution" in found else choose
    if "decode_step" in found:
        cached = _PieceDecoder(found["decode_step"], found["empty_cache"], model, sampling, config.context, chosen)
        return _blamed(pieces, generate(cached, ids, sampling, end, number))
    if "generate" not in found:
        window = WindowDecoder(model, sampling, config.context, chosen)
        return _blamed(pieces, generate(window, ids, sampling, end, number))
    key = jax.random.fold_in(jax.random.key(sampling.seed), number)
    settings = (sampling.max_tokens, config.context, end, key, sampling.temperature, sampling.top_k, sampling.top_p)
    graph, parameters = nnx.split(model)
    logits = jax.jit(lambda ids: nnx.merge(graph, parameters)(ids))
    return iter(np.asarray(blame(pieces, lambda: found["generate"](logits, jnp.asarray(ids), *settings))).tolist())


def _blamed(pieces: Pieces, items: Iterator[int]) -> Iterator[int]:
    """The same items; an error on the way to one is a PieceError, as in `blame`."""
    while (item := blame(pieces, lambda: next(items, None))) is not None:
        yield item


@functools.cache
def _choice(distribution: Any) -> Choose:
    """A token drawn from what their `sampling_distribution` says."""

    def draw(logits_V: Array, key: PRNGKeyArray, sampling: Sampling) -> Array:
        odds = distribution(logits_V, sampling.temperature, sampling.top_k, sampling.top_p)
        return jax.random.categorical(key, jnp.log(odds))

    return draw


@functools.lru_cache(maxsize=8)
def _step_program(graph: Any, step: Any, sampling: Sampling, chosen: Choose) -> Any:
    """Takes in one token by their step and chooses what follows."""

    @jax.jit
    def advance(parameters: Any, cache: Any, token: Array, key: PRNGKeyArray) -> tuple[Array, Any]:
        logits_V, cache = step(nnx.merge(graph, parameters), cache, token)
        return chosen(logits_V, key, sampling), cache

    return advance


class _PieceDecoder:
    """Their `decode_step`, one position a token. When the context is full, goes on from the last half of it."""

    def __init__(self, step: Any, empty_cache: Any, model: Any, sampling: Sampling, context: int, chosen: Choose):
        self.context, self.ids = context, list[int]()
        self._empty = lambda: empty_cache(model, context)
        graph, parameters = nnx.split(model)
        self._advance = functools.partial(_step_program(graph, step, sampling, chosen), parameters)

    def begin(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids, self.cache = [], self._empty()
        for token in ids[-self.context :]:
            following = self.follow(token, key)
        return following

    def follow(self, token: int, key: PRNGKeyArray) -> int:
        if len(self.ids) == self.context:
            return self.begin([*self.ids[-(self.context // 2 or 1) :], token], key)
        self.ids.append(token)
        following, self.cache = self._advance(self.cache, jnp.int32(token), key)
        return int(following)


def export(config: Config, pieces: Pieces, model: Any, folder: Path) -> None:
    """Writes their MiniGPT by their `export_gpt2`, adapters merged. Raises UsageError if the workspace has not both."""
    if "export_gpt2" not in pieces.found:
        raise UsageError(
            "The run's workspace has no `export_gpt2` and `MiniGPT`, or one is not filled in: problems 28 and 06."
        )
    if config.lora_rank:
        if "merge" not in pieces.found:
            raise UsageError(
                "The adapters of this run must be merged first, and its workspace has no `merge`: problem 31."
            )
        model = blame(pieces, lambda: lora.merged(model, pieces.found["merge"]))
    blame(pieces, lambda: pieces.found["export_gpt2"](model, config.num_heads, str(folder)))
