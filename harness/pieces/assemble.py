"""Assembles a run from the pieces of a workspace and, where there is none, the harness's own code."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tiktoken
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PRNGKeyArray

from harness.config import Config
from harness.data.batches import PADDING, STORIES_AT_ONCE, Rows, Windows, first_of, row_ids
from harness.data.token_files import Tokens
from harness.data.tokenizer import ranks_of
from harness.errors import PieceError, UsageError
from harness.model import lora
from harness.model.continuous_batching import Paging, generate_paged
from harness.model.experts import Experts
from harness.model.general import MIXERS, make_block, make_gpt
from harness.model.general import make_norm as default_norm
from harness.model.paged_cache import BlockManager
from harness.model.sampling import CachedDecoder, ChooseToken, Decoder, Sampling, WindowDecoder, choose_token, generate
from harness.model_config import ModelConfig
from harness.pieces import adapt
from harness.pieces.load import Pieces, attribute_errors_to
from harness.pieces.model_pieces import WITHOUT_CACHE
from harness.pieces.spec import has_segments
from harness.pieces.zero1 import with_zero_step
from harness.training.optimizer import make_optimizer, of_updates
from harness.training.sharding import ShardingRule, path_names
from harness.training.train_step import Gradients, LossSum, Recipe, default_recipe

# Those that mix positions, of which a config uses one
MIXER_PIECES = ("GQA", "CausalMHA", "LatentAttention", "SelectiveSSM", "Attention")
MODELS = ("MiniGPT", "GPT2", "ModernGPT", "MultiTokenGPT")


def recipe_from(config: Config, mesh: Mesh, pieces: Pieces) -> Recipe:
    """The harness's own recipe with the pieces in place of its parts."""
    own = default_recipe(config, mesh)
    gradients: Gradients | None = pieces.adapted("accumulated_gradients", config)
    rate = own.learning_rate
    for name, start in (("warmup_cosine", ()), ("warmup_stable_decay", (config.decay_start,))):
        if schedule := pieces.adapted(name, config):
            steps = (config.warmup_steps, *start, config.schedule_steps or config.steps)
            rate = of_updates(config, schedule(config.learning_rate, *steps))
    if has_segments(config):
        story_loss = pieces.by_name.get("next_token_loss", adapt.mean_cross_entropy)
        parts = (pieces.adapted(name, config) for name in ("segment_positions", "segment_targets"))
        loss_sum = adapt.segment_loss(story_loss, *parts)
    else:
        loss_sum = pieces.adapted("next_token_loss", config) or adapt.batch_loss(config, adapt.mean_cross_entropy)
    recipe = replace(
        own,
        build=model_builder(config, pieces),
        loss_sum=_two_losses(config, pieces) if config.mtp else loss_sum,
        validation_loss_sum=loss_sum,
        gradients=gradients or own.gradients,
        optimizer=make_optimizer(
            config,
            rate=rate,
            adamw=pieces.adapted("adamw", config),
            muon=pieces.adapted("muon", config),
            # accumulated_gradients already clips the accumulated gradients.
            clip=_no_clip if gradients else pieces.adapted("clip_by_global_norm", config),
            guard=pieces.adapted("finite_guard", config),
            update_bias=pieces.adapted("update_bias", config),
        ),
        learning_rate=rate,
        sharding_rule=_sharding_rule(config, pieces),
        train_step=pieces.adapted("train_step", config),
    )
    if not pieces.uses("zero_step", config):
        return recipe
    return with_zero_step(recipe, config, mesh, pieces.by_name["zero_state"], pieces.by_name["zero_step"])


def _two_losses(config: Config, pieces: Pieces) -> LossSum:
    """The loss of the next token and of the one after it, with `mtp`."""
    own = adapt.two_means(pieces.by_name.get("next_token_loss", adapt.mean_cross_entropy))
    loss: LossSum = pieces.adapted("mtp_loss", config) or adapt.two_losses(config, own)
    return loss


def model_builder(config: Config, pieces: Pieces) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds a model that is a piece, or the harness's GPT with pieces as submodules; with adapters if `lora_rank` is
    set."""
    whole = (pieces.adapted(name, config) for name in MODELS)
    model = next(filter(None, whole), None) or _gpt_builder(config, pieces)
    build = adapt.with_axes(model)
    if not config.lora_rank:
        return build
    make_adapter = pieces.adapted("LoRALinear", config) or lora.LoRALinear
    return lambda rngs: lora.add_adapters(build(rngs), config.lora_rank, config.adapted, rngs, make_adapter)


def other_model(config: Config, base: Config, pieces: Pieces) -> str:
    """Why a run has another model than its base, which was trained with the same pieces, and what to do; empty if it
    has not."""
    names = (*MODELS, *MIXER_PIECES, "GPTBlock", "TokenAndPositionEmbed")
    here, there = ({name for name in names if pieces.uses(name, each)} for each in (config, base))
    name = next((name for name in names if name in there - here), None)
    if here == there:
        return ""
    if has_segments(config) != has_segments(base):
        several = (
            f"your {name or min(here - there)} takes a row for one story, and with packing=segments a row has several"
        )
        return f"{several}; --set packing={'segments' if has_segments(base) else 'padded'}"
    has = f"it has your {name}" if name else f"it has no {min(here - there)}"
    return f"{has}; `harness finetune {config.base}` and `harness rl {config.base}` take its settings"


def _gpt_builder(config: Config, pieces: Pieces) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds the harness's GPT with the parts of the pieces, or the block of problem 05."""
    config = replace(config, context=config.context + 1)
    rope = pieces.adapted("rope", config)
    within = pieces.adapted("segment_attention", config) or pieces.adapted("segment_mask", config)
    of_attention = {name: piece for name, piece in (("rotate", rope), ("attend_within", within)) if piece}
    rule = pieces.adapted("delta_rule", config)
    own = {"attention": of_attention, "latent_attention": of_attention, "gated_delta": {"rule": rule} if rule else {}}
    moe = pieces.adapted("moe", config)
    own_mixer = next(filter(None, (pieces.adapted(name, config) for name in MIXER_PIECES)), None)

    def make_mixer(layer: ModelConfig, rngs: nnx.Rngs) -> nnx.Module:
        if own_mixer is not None and layer.mixer == config.mixer:  # other layers may have attention
            return own_mixer(layer, rngs)
        return MIXERS[layer.mixer](layer, rngs, **own.get(layer.mixer, {}))

    parts = {
        "make_mixer": make_mixer if own_mixer or rope else None,
        "make_norm": pieces.adapted("RMSNorm", config),
        "make_feed_forward": pieces.adapted("SwiGLU", config),
    }
    given = {name: part for name, part in parts.items() if part is not None}
    block, make_norm = pieces.adapted("GPTBlock", config), given.get("make_norm", default_norm)
    with_functions: dict[str, Any] = {"make_mixer": make_mixer}
    if moe:
        with_functions["make_feed_forward"] = functools.partial(Experts, moe=moe)
    of_parts = block or functools.partial(make_block, **with_functions | given)
    model = config.model
    if block or given:
        # Pieces initialize like Flax layers. Next to GPT-2's small embeddings, their output would hide the token.
        model = replace(model, init="xavier")
    if model.positions == "rope" and (block or pieces.uses("CausalMHA", config)):
        model = replace(model, positions="learned")  # these pieces do not rotate
    embed = pieces.adapted("TokenAndPositionEmbed", config)
    return lambda rngs: make_gpt(model, rngs, make_block=of_parts, make_embed=embed, make_norm=make_norm)


def _sharding_rule(config: Config, pieces: Pieces) -> ShardingRule | None:
    """The sharding rule of the pieces. `partition_spec` knows MiniGPT's names; moments are sharded like their
    parameter."""
    partition_spec: Any = pieces.adapted("partition_spec", config)
    if partition_spec is None:
        return pieces.adapted("fsdp_spec", config)
    model = nnx.eval_shape(lambda: model_builder(config, pieces)(nnx.Rngs(0)))
    parameters = {path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(nnx.state(model))}

    def rule(names: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
        suffixes = (names[start:] for start in range(len(names)))
        parameter = next((suffix for suffix in suffixes if suffix in parameters), None)
        return partition_spec(".".join(parameter), shape, mesh) if parameter else PartitionSpec()

    return rule


def _no_clip(gradients: Any, max_norm: float) -> tuple[Any, Array]:
    return gradients, optax.tree.norm(gradients)


def pack_windows(config: Config, pieces: Pieces, tokens: Tokens) -> np.ndarray:
    """Windows of `context + 1` ids by the piece `pack`: of one stream, or with `packing=padded` of each story."""
    ends = [0, *tokens.ends.tolist()] if config.packing == "padded" else [0, len(tokens)]
    width = config.context + 1

    def pack() -> list[np.ndarray]:
        spans = (row_ids(tokens[start:stop]) for start, stop in itertools.pairwise(ends))
        return [np.asarray(pieces.by_name["pack"](ids, width, PADDING), np.int32) for ids in spans]

    return np.concatenate(attribute_errors_to(pieces, pack))


def pack_segments(config: Config, pieces: Pieces, tokens: Tokens) -> np.ndarray:
    """Rows of `context + 1` ids by the piece `pack_stories`, which gets the stories that `first_fit` gets together.

    Raises PieceError if they are no such rows.
    """
    stories, width = Windows.of_stories(config, tokens), config.context + 1
    pack = pieces.by_name["pack_stories"]

    def packed(start: int) -> np.ndarray:
        some = [stories.ids(index) for index in range(start, min(start + STORIES_AT_ONCE, len(stories)))]
        ids, segments = map(np.asarray, pack(some, width, PADDING))
        if ids.shape != segments.shape or ids.shape[1:] != (width,):
            raise PieceError(
                f"pack_stories returned arrays of shapes {ids.shape} and {segments.shape}; both must be (R, {width}). "
                "`grade problem 54` says more."
            )
        is_first = (segments > 0) & (segments != np.pad(segments, ((0, 0), (1, 0)))[:, :-1])
        return np.where(segments > 0, np.where(is_first, first_of(ids), ids), PADDING).astype(np.int32)

    starts = range(0, len(stories), STORIES_AT_ONCE)
    return np.concatenate(attribute_errors_to(pieces, lambda: [packed(start) for start in starts]))


def encode_text(pieces: Pieces, tokenizer: tiktoken.Encoding, text: str) -> list[int]:
    """The ids of a text by the piece `encode`. Raises PieceError if they are not those of the tokenizer."""
    ids = attribute_errors_to(pieces, lambda: [*pieces.by_name["encode"](text, ranks_of(tokenizer), {})])
    if ids != (expected := tokenizer.encode_ordinary(text)):
        raise PieceError(
            f"encode returned the ids {ids} for {text!r}; the tokenizer gives {expected}. `grade problem 53` says more."
        )
    return ids


def make_batches(config: Config, pieces: Pieces, rows: Rows, process: int, processes: int) -> Any:
    """The batches of the piece `make_loader`, over as many windows as fill whole batches.

    Raises UsageError if the processes cannot split a batch evenly.
    """
    if config.batch_size % processes:
        raise UsageError(f"A batch of {config.batch_size} rows cannot be split evenly over {processes} processes.")
    count = len(rows) // config.batch_size * config.batch_size
    table = rows[:count] if isinstance(rows, np.ndarray) else np.stack([rows[index] for index in range(count)])
    per_process = config.batch_size // processes
    make_loader = pieces.by_name["make_loader"]
    return attribute_errors_to(pieces, lambda: make_loader(table, per_process, config.seed, process, processes))


def generate_tokens(
    config: Config, pieces: Pieces, model: Any, ids: list[int], sampling: Sampling, end: int, number: int
) -> Iterator[int]:
    """The tokens after `ids`, up to `end`: by `decode_step`, by the mixer's own, by `generate`, or by rerunning the
    window.

    `sampling_distribution` chooses the tokens, except in `generate`, which chooses its own.
    """
    choose = pieces.adapted("sampling_distribution", config) or choose_token
    decoder: Decoder | None = None
    if pieces.uses("decode_step", config):
        decoder = _PieceDecoder(pieces, model, sampling, config.context, choose)
    elif config.mixer != "attention":
        decoder = CachedDecoder(model, sampling, choose)
    elif "generate" not in pieces.by_name:
        decoder = WindowDecoder(model, sampling, config.context, choose)
    if decoder is not None:
        return _attribute_each(pieces, generate(decoder, ids, sampling, end, number))
    key = jax.random.fold_in(jax.random.key(sampling.seed), number)
    longest = min(config.context, len(ids) + sampling.max_tokens)  # or a short text is padded to a long context
    options = (sampling.max_tokens, longest, end, key, sampling.temperature, sampling.top_k, sampling.top_p)
    graph, parameters = nnx.split(model)
    logits = jax.jit(lambda ids: nnx.merge(graph, parameters)(ids))
    tokens = attribute_errors_to(pieces, lambda: pieces.by_name["generate"](logits, jnp.asarray(ids), *options))
    return iter(np.asarray(tokens).tolist())


def rollout_loss(config: Config, pieces: Pieces) -> LossSum | None:
    """The loss of rollouts that a run takes from its pieces, if any."""
    if pieces.uses("policy_loss", config):
        return adapt.lag_loss(config, pieces.by_name["policy_loss"], pieces.by_name["kl_loss"])
    loss: LossSum | None = pieces.adapted("grpo_loss", config)
    return loss


def verifier(pieces: Pieces) -> Callable[[str, str], bool] | None:
    """The piece `verify`, if there is one. It raises PieceError if the piece fails or says neither yes nor no."""
    if "verify" not in pieces.by_name:
        return None

    def verify(answer: str, truth: str) -> bool:
        found = attribute_errors_to(pieces, lambda: pieces.by_name["verify"](answer, truth))
        if not isinstance(found, bool):
            raise PieceError(f"verify returned {found!r} for the answer {answer!r:.60}; it must return True or False.")
        return found

    return verify


def call_tools(pieces: Pieces) -> Callable[..., list[list[int]]] | None:
    """The piece `call_tools`, if there is one. It raises PieceError if the piece fails or returns no lists of token
    ids."""
    if "call_tools" not in pieces.by_name:
        return None

    def call(turn: list[int], tools: Any, tokenizer: Any, *limits: int) -> list[list[int]]:
        found = attribute_errors_to(pieces, lambda: pieces.by_name["call_tools"](turn, tools, tokenizer, *limits))
        try:
            return [[range(tokenizer.end + 1)[token] for token in result] for result in found]
        except (TypeError, IndexError) as error:
            raise PieceError(
                f"call_tools returned {found!r:.80}; it must return a list of lists of token ids. `grade problem 82` "
                "says more."
            ) from error

    return call


def loss_mask(pieces: Pieces) -> Callable[[list[tuple[str, list[int]]]], list[bool]] | None:
    """The piece `loss_mask`, if there is one. It raises PieceError if the piece fails or does not return a boolean for
    each token."""
    if "loss_mask" not in pieces.by_name:
        return None

    def mask(transcript: list[tuple[str, list[int]]]) -> list[bool]:
        found = attribute_errors_to(pieces, lambda: pieces.by_name["loss_mask"](transcript))
        number = sum(len(part) for _, part in transcript)
        if not isinstance(found, list) or len(found) != number or not all(isinstance(each, bool) for each in found):
            raise PieceError(
                f"loss_mask returned {found!r:.60} for {number} tokens; it must return a list of as many booleans. "
                "`grade problem 82` says more."
            )
        return found

    return mask


def samples_together(config: Config, pieces: Pieces | None) -> bool:
    """Whether the harness samples several texts in one program: no piece chooses tokens, and none is a model without a
    cache."""
    others = (*WITHOUT_CACHE, "sampling_distribution", "generate", "decode_step")
    return pieces is None or not any(pieces.uses(name, config) for name in others)


def paging(config: Config, pieces: Pieces | None) -> Paging | None:
    """The paged cache of a run and the pieces that manage and read it; `sampling_distribution` chooses the tokens.

    None without `cache_blocks`, and if the model has a piece without a cache of keys and values.
    """
    sizes = config.cache_blocks, config.cache_block_size, config.cache_rows
    if pieces is None:
        return Paging(*sizes) if config.cache_blocks else None
    if not config.cache_blocks or any(pieces.uses(name, config) for name in WITHOUT_CACHE):
        return None
    parts = {
        "make_manager": pieces.adapted("BlockManager", config),
        "attention": pieces.adapted("paged_attention", config),
        "choose": pieces.adapted("sampling_distribution", config),
    }
    return Paging(*sizes, **{name: part for name, part in parts.items() if part is not None})


def generate_together(
    pieces: Pieces | None,
    model: Any,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    end: int,
    numbers: Iterable[int],
    width: int,
    cache: Paging,
) -> list[list[int]]:
    """`generate_paged` with the parts of `paging`. Raises PieceError if the piece BlockManager has too few blocks."""
    generated = functools.partial(generate_paged, model, prompts, sampling, end, numbers, width, cache)
    try:
        return attribute_errors_to(pieces, generated)
    except MemoryError as error:
        if cache.make_manager is BlockManager:
            raise
        raise PieceError(
            f"BlockManager finds no block where enough are free: {error}. `grade problem 63` says more."
        ) from error


def _attribute_each(pieces: Pieces, items: Iterator[int]) -> Iterator[int]:
    """The same items. Errors while one is produced are treated as in `attribute_errors_to`."""
    while (item := attribute_errors_to(pieces, lambda: next(items, None))) is not None:
        yield item


@functools.lru_cache(maxsize=8)
def _piece_step(graph: Any, decode_step: Any, sampling: Sampling, choose: ChooseToken) -> Any:
    """A jitted function that runs one token through `decode_step` and chooses the next."""

    @jax.jit
    def advance(parameters: Any, cache: Any, token: Array, key: PRNGKeyArray) -> tuple[Array, Any]:
        logits_V, cache = decode_step(nnx.merge(graph, parameters), cache, token)
        return choose(logits_V, key, sampling), cache

    return advance


class _PieceDecoder:
    """Decodes with the piece `decode_step`. When the context is full, restarts from its second half."""

    def __init__(self, pieces: Pieces, model: Any, sampling: Sampling, context: int, choose: ChooseToken):
        self.context, self.ids = context, list[int]()
        self._empty_cache = lambda: pieces.by_name["empty_cache"](model, context)
        graph, parameters = nnx.split(model)
        step = _piece_step(graph, pieces.by_name["decode_step"], sampling, choose)
        self._advance = functools.partial(step, parameters)

    def prefill(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids, self.cache = [], self._empty_cache()
        for token in ids[-self.context :]:
            next_token = self.decode(token, key)
        return next_token

    def decode(self, token: int, key: PRNGKeyArray) -> int:
        if len(self.ids) == self.context:
            return self.prefill([*self.ids[-(self.context // 2 or 1) :], token], key)
        self.ids.append(token)
        next_token, self.cache = self._advance(self.cache, jnp.int32(token), key)
        return int(next_token)


def export_model(config: Config, pieces: Pieces, model: Any, folder: Path) -> None:
    """Writes MiniGPT to `folder` with the piece `export_gpt2`, after merging adapters.

    Raises UsageError if the workspace lacks a piece that this needs.
    """
    if not pieces.uses("export_gpt2", config):
        raise UsageError(
            "The run does not use both `export_gpt2` (problem 28) and `MiniGPT` (problem 06), which it exports."
        )
    if config.lora_rank:
        if "merge" not in pieces.by_name:
            raise UsageError("Merging the run's adapters needs the piece `merge` (problem 31), which is missing.")
        model = attribute_errors_to(pieces, lambda: lora.merge_adapters(model, pieces.by_name["merge"]))
    attribute_errors_to(pieces, lambda: pieces.by_name["export_gpt2"](model, config.num_heads, str(folder)))
