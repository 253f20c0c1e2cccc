"""Adapters: turn a piece, written for one story, into what the harness calls.

A piece sees whole rows of `context + 1` ids, so a model with pieces has one position more than the context. Its
`pad_id` is -1.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, PRNGKeyArray

from harness.config import Config
from harness.data.batches import FIRST, UNLEARNED
from harness.model.attention import SMALLEST_TILE
from harness.model.gated_delta import CHUNK, DeltaRule
from harness.model.gpt import Attend, Cache
from harness.model.loss import scores
from harness.model.paged_cache import Blocks, PagedAttend
from harness.model.rope import Rotate
from harness.model.sampling import ChooseToken, Sampling
from harness.model.segments import Segments, segment_positions
from harness.training.dpo import Pairs, all_logits, is_pair, measured
from harness.training.grpo import Rollouts, log_probabilities
from harness.training.optimizer import decayed
from harness.training.sharding import ShardingRule
from harness.training.train_step import Gradients, LossSum, segment_ids, token_ids

PAD_ID = -1


class BatchedLayer(nnx.Module):
    """A block or attention for one story, as the harness's GPT calls it: without the cache that it returns."""

    def __init__(self, piece: nnx.Module):
        self.piece = piece

    def __call__(self, x: Array, *_: Any) -> tuple[Array, None]:
        return jax.vmap(self.piece)(x), None


class CachedLayer(nnx.Module):
    """A layer for one story with `empty_cache` and `decode_step`, as the harness's GPT calls it: with its cache, in
    steps."""

    def __init__(self, piece: Any, config: Any):
        self.piece, self.context = piece, config.context

    def empty_cache(self, batch: int) -> Cache:
        """The caches of one layer for a batch of stories."""
        caches = [self.piece.empty_cache(self.context)] * batch
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *caches)

    def __call__(
        self, x_BTD: Array, position: Any = 0, cache: Cache | None = None, layer: Any = 0, last: Any = 0
    ) -> tuple[Array, Cache | None]:
        if cache is None:
            return jax.vmap(self.piece)(x_BTD), None

        def advance(before: Cache, inputs: tuple[Array, Array]) -> tuple[Cache, Array]:
            index, x_BD = inputs
            out_BD, after = jax.vmap(self.piece.decode_step)(before, x_BD)
            return jax.tree.map(lambda new, old: jnp.where(index > last, old, new), after, before), out_BD

        own = jax.tree.map(lambda leaf_LB: leaf_LB[layer], cache)
        own, out_TBD = jax.lax.scan(advance, own, (jnp.arange(x_BTD.shape[1]), x_BTD.swapaxes(0, 1)))
        return out_TBD.swapaxes(0, 1), jax.tree.map(lambda all_LB, one_B: all_LB.at[layer].set(one_B), cache, own)


class SwitchedAttention(nnx.Module):
    """Attention of problem 71 for one story, as the harness's GPT calls it: without a cache, and in layers of two kinds
    with `full_every`."""

    def __init__(self, attention: Any, config: Any, rngs: nnx.Rngs):
        self.config = config
        self._make: Any = functools.partial(attention, **_switches(config))
        self.piece = self._of_kind(is_full=not config.window, rngs=rngs)

    def _of_kind(self, *, is_full: bool, rngs: nnx.Rngs) -> Any:
        config = self.config
        base = config.rope_base if is_full else config.window_rope_base or config.rope_base
        return self._make(rope_base=base, window=None if is_full else config.window, rngs=rngs)

    def __call__(self, x_BTD: Array, position: Any = 0, cache: None = None, layer: Any = 0, *_: Any) -> Any:
        if not self.config.full_every:
            return jax.vmap(self.piece)(x_BTD), None
        graph = nnx.graphdef(nnx.eval_shape(lambda: self._of_kind(is_full=True, rngs=nnx.Rngs(0))))
        whole = nnx.merge(graph, nnx.state(self.piece))
        return jax.lax.cond(self.config.is_full(layer), jax.vmap(whole), jax.vmap(self.piece), x_BTD), None


def _switches(config: Any) -> dict[str, Any]:
    """The arguments of the attention of problem 71 that all layers share."""
    kinds = {"rmsnorm": "w", "rmsnorm_1": "1 + w"}
    return {
        "d_model": config.d_model, "num_heads": config.num_heads, "num_kv_heads": config.kv_heads,
        "head_dim": config.per_head, "scale": config.per_head**-0.5, "bias": config.qkv_bias,
        "qk_norm": kinds[config.norm_kind] if config.qk_norm == "head" else None, "norm_epsilon": config.norm_epsilon,
        "sinks": config.sinks, "pairing": "halves", "chunk": None,
    }  # fmt: skip


class BatchedEmbed(nnx.Module):
    """An embedding of one story, as a submodule for a batch."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self, ids_BT: Array) -> Array:
        return jax.vmap(self.piece)(ids_BT)

    def table(self) -> nnx.Param:
        """The token vectors for a tied head: those of the piece's `embed`, an `nnx.Embed`."""
        return self.piece.embed.embedding


def model_factory(config: Any, mini_gpt: Any) -> Callable[[nnx.Rngs], nnx.Module]:
    """MiniGPT or GPT2 as the model of a run, whose sizes `config` has."""
    sizes = (config.vocab_size, config.d_model, config.num_heads, config.d_ff, config.num_layers)
    return lambda rngs: mini_gpt(*sizes, max_T=config.context + 1, rngs=rngs)


def modern_model_factory(config: Any, modern_gpt: Any) -> Callable[[nnx.Rngs], nnx.Module]:
    """ModernGPT as the model of a run. Every layer sees all positions, as in the harness's GPT."""
    sizes = (config.vocab_size, config.d_model, config.num_heads, config.kv_heads, config.d_ff, config.num_layers)
    window = {"window": config.context + 1, "full_every": 1}
    norms = {"rope_base": config.rope_base, "norm_epsilon": config.norm_epsilon}
    return lambda rngs: modern_gpt(*sizes, **window, **norms, rngs=rngs)


class TwoAhead(nnx.Module):
    """MultiTokenGPT, which predicts two tokens, as a model that predicts the next one."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self, ids_T: Array) -> Array:
        return self.piece.run(ids_T)[0]


def multi_token_model_factory(config: Any, multi_token_gpt: Any) -> Callable[[nnx.Rngs], nnx.Module]:
    """MultiTokenGPT as the model of a run. Its module reads the state after the final norm, as in the harness's GPT."""
    sizes = (config.vocab_size, config.d_model, config.num_heads, config.kv_heads, config.d_ff, config.num_layers)
    rest = {"rope_base": config.rope_base, "norm_epsilon": config.norm_epsilon, "mtp_after_norm": True}
    return lambda rngs: TwoAhead(multi_token_gpt(*sizes, **rest, rngs=rngs))


@functools.cache  # the harness's GPT compares the function
def rotation(rope: Any) -> Rotate:
    """rope as the rotary positions of the harness's GPT."""

    def rotated(x_BTHK: Array, positions: Array, base: float) -> Array:
        in_axes = (0, None if positions.ndim == 1 else 0)
        return jax.vmap(lambda x_THK, positions_T: rope(x_THK, positions_T, base), in_axes)(x_BTHK, positions)

    return rotated


@functools.cache  # the harness's GPT compares the function
def masked_attention(segment_mask: Any) -> Attend:
    """segment_mask as the mask of the attention of the harness's GPT."""

    def attend(q_BTHK: Array, k_BTHK: Array, v_BTHK: Array, window: int, segments_BT: Array) -> Array:
        mask_BTT = jax.vmap(segment_mask)(segments_BT)
        return jax.nn.dot_product_attention(q_BTHK, k_BTHK, v_BTHK, mask=mask_BTT[:, None])

    return attend


@functools.cache
def segment_attention(segment_attention: Any) -> Attend:
    """segment_attention as the attention of each head of the harness's GPT."""

    def attend(q_BTHK: Array, k_BTHK: Array, v_BTHK: Array, window: int, segments_BT: Array) -> Array:
        B, T, H, K = q_BTHK.shape
        # One head after the other: under vmap, `lax.cond` would compute the blocks that it is there to skip.
        q_NTK, k_NTK, v_NTK = (x.swapaxes(1, 2).reshape(B * H, T, K) for x in (q_BTHK, k_BTHK, v_BTHK))
        each = (q_NTK, k_NTK, v_NTK, jnp.repeat(segments_BT, H, axis=0))
        out_NTK = jax.lax.map(lambda head: segment_attention(*head, min(SMALLEST_TILE, T)), each)
        return out_NTK.reshape(B, H, T, K).swapaxes(1, 2)

    return attend


@functools.cache  # compared in a jitted function
def paged_attention(paged_attention: Any) -> PagedAttend:
    """paged_attention as the attention of the harness's GPT to a paged cache: of each token to those up to it."""

    def attend(
        q_BTHK: Array, blocks: Blocks, layer: Any, tables_BM: Array, positions_BT: Array, window: int = 0
    ) -> Array:
        (B, T, H, K), (_, N, _, G, _) = q_BTHK.shape, blocks.k_LNSGK.shape
        keys_NSGK, values_NSGK = (x[layer] for x in blocks)
        tables_BM = jnp.where(tables_BM == N, -1, tables_BM)

        def of_token(q_GRK: Array, table_M: Array, position: Array) -> Array:
            # The queries that share a head of keys come one after the other, so that no head of keys is repeated.
            each = jax.vmap(lambda q_GK: paged_attention(q_GK, keys_NSGK, values_NSGK, table_M, position + 1), 1, 1)
            return each(q_GRK)

        of_row = jax.vmap(of_token, (0, None, 0))
        return jax.vmap(of_row)(q_BTHK.reshape(B, T, G, H // G, K), tables_BM, positions_BT).reshape(B, T, H, K)

    return attend


@functools.cache  # the harness's GPT compares the function
def delta_rule(rule: Any) -> DeltaRule:
    """delta_rule as that of the heads of the harness's GPT, one after the other.

    Under vmap, a solver of triangular systems gets many at once. On a CPU of two cores, that of JAX 0.10.2 then waited
    for its own threads forever.
    """
    return lambda *heads: jax.lax.map(lambda head: rule(*head, CHUNK), heads)


# The axis over `model` of the parameters of pieces, by the names that the course gives them. The harness's own
# parameters have it in their metadata.
MODEL_AXIS = {
    "embed.embedding": -2,
    "q_proj.kernel": -1,
    "k_proj.kernel": -1,
    "v_proj.kernel": -1,
    "out_proj.kernel": -2,
    "o_proj.kernel": -2,
    "ff1.kernel": -1,
    "ff1.bias": -1,
    "ff2.kernel": -2,
    "gate_proj.kernel": -1,
    "up_proj.kernel": -1,
    "down_proj.kernel": -2,
    "k_up.kernel": -1,
    "v_up.kernel": -1,
    "bc_proj.kernel": -2,
    "dt_proj.kernel": -1,
    "dt_proj.bias": -1,
}


def with_axes(build: Callable[[nnx.Rngs], nnx.Module]) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds the same model, whose parameters say how a mesh splits them."""

    def annotated(rngs: nnx.Rngs) -> nnx.Module:
        model = build(rngs)
        for path, parameter in nnx.to_flat_state(nnx.state(model, nnx.Param)):
            axis = MODEL_AXIS.get(".".join(map(str, path[-2:])))
            if axis is not None:
                parameter.set_metadata(model_axis=axis)
            if "blocks" in path and not any(str(name).isdecimal() for name in path):  # one module for all layers
                parameter.set_metadata(stacked=True)
        return model

    return annotated


def batch_loss(config: Config, story_loss: Callable[[Array, Array, int], Array]) -> LossSum:
    """The loss of a batch from next_token_loss, a mean over one story, weighted by its number of targets.

    Tokens that are only read are no targets.
    """

    def loss_sum(model: nnx.Module, rows_BT: Array, key: Any) -> tuple[Array, Array]:
        del key  # the harness requires dropout=0 with pieces
        ids_BT = token_ids(rows_BT) if config.has_dialogues else rows_BT
        return _weighted(story_loss, jax.vmap(model)(ids_BT), jnp.maximum(rows_BT, PAD_ID))

    return loss_sum


def two_losses(config: Config, mtp_loss: Callable[..., Array]) -> LossSum:
    """The losses of a batch from mtp_loss, means over one story, weighted by its numbers of targets.

    The weights 0 and 1 tell the two means apart, since each has a number of targets of its own.
    """

    def of_story(logits_TV: Array, ahead_TV: Array, ids_T: Array, is_target_T: Array) -> tuple[Array, Array, Array]:
        own, both = (mtp_loss(logits_TV, ahead_TV, ids_T, is_target_T, weight) for weight in (0.0, 1.0))
        counts = jnp.sum(is_target_T[1:]), jnp.sum(is_target_T[2:])
        return own * counts[0].astype(own.dtype), (both - own) * counts[1].astype(own.dtype), counts[0]

    def loss_sum(model: Any, rows_BT: Array, key: Any) -> tuple[Array, Array, dict[str, Array]]:
        del key  # the harness requires dropout=0 with pieces
        ids_BT = token_ids(rows_BT)
        if isinstance(model, TwoAhead):
            logits_BTV, ahead_BTV = jax.vmap(model.piece)(ids_BT)
        else:
            hidden_BTD = model.hidden(ids_BT)
            logits_BTV = model.logits(hidden_BTD)
            ahead_BTV = model.logits(model.ahead(hidden_BTD[:, :-1], ids_BT[:, 1:]))
        each = jax.vmap(of_story)(logits_BTV, ahead_BTV, ids_BT, rows_BT >= 0)
        own, ahead, count = map(jnp.sum, each)
        return own + config.mtp_weight * ahead, count, {"next_token_loss": own, "mtp_loss": ahead}

    return loss_sum


def two_means(story_loss: Callable[[Array, Array, int], Array]) -> Callable[..., Array]:
    """The default of mtp_loss: next_token_loss of the next tokens, and of those after them."""

    def mtp_loss(logits_TV: Array, ahead_TV: Array, ids_T: Array, is_target_T: Array, weight: float) -> Array:
        labels_T = jnp.where(is_target_T, ids_T, PAD_ID)
        return story_loss(logits_TV, labels_T, PAD_ID) + weight * story_loss(ahead_TV, labels_T[1:], PAD_ID)

    return mtp_loss


def segment_loss(story_loss: Callable[[Array, Array, int], Array], positions: Any, targets: Any) -> LossSum:
    """The loss of rows with several stories in the harness's GPT: next_token_loss, for the targets of segment_targets.

    `positions` and `targets` take rows of a batch; None stands for the harness's own. Tokens that are only read are no
    targets.
    """

    def loss_sum(model: Any, rows_BT: Array, key: Any) -> tuple[Array, Array]:
        del key  # the harness requires dropout=0 with pieces
        ids_BT, segments_BT = token_ids(rows_BT), segment_ids(rows_BT)
        segments = Segments(segments_BT, (positions or segment_positions)(segments_BT))
        labels_BT = jnp.maximum(rows_BT, PAD_ID)  # what is no target, such as the first token of a story, has PAD_ID
        if targets is not None:
            is_read_BT = (rows_BT[:, 1:] <= UNLEARNED) & (rows_BT[:, 1:] > FIRST)
            targets_BT = jnp.where(is_read_BT, PAD_ID, targets(ids_BT, segments_BT)[:, :-1])
            labels_BT = jnp.concatenate([labels_BT[:, :1], targets_BT], axis=1)
        return _weighted(story_loss, model.logits(model.hidden(ids_BT, None, segments)), labels_BT)

    return loss_sum


def _weighted(story_loss: Callable[..., Array], logits_BTV: Array, ids_BT: Array) -> tuple[Array, Array]:
    """The sum of the losses of all targets, from their means over each row, and the number of targets."""
    losses_B = jax.vmap(lambda logits, ids: story_loss(logits, ids, PAD_ID))(logits_BTV, ids_BT)
    counts_B = jnp.sum(ids_BT[:, 1:] != PAD_ID, axis=1)
    return jnp.sum(losses_B * counts_B.astype(losses_B.dtype)), jnp.sum(counts_B)


def train_step(config: Config, piece: Any) -> Callable[..., tuple[Array, Array]]:
    """train_step with the `pad_id` of pieces. It does not say the norm of the gradients."""

    def step(model: nnx.Module, optimizer: nnx.Optimizer, ids_BT: Array) -> tuple[Array, Array]:
        return piece(model, optimizer, ids_BT, PAD_ID), jnp.float32(jnp.nan)

    return step


def rollout_loss(config: Config, grpo_loss: Callable[..., Array]) -> LossSum:
    """The loss of rollouts from grpo_loss, a mean over all sampled tokens."""

    def loss_sum(model: nnx.Module, rollouts: Rollouts, key: Any) -> tuple[Array, Array]:
        del key  # no dropout: the ratio compares two runs of one function
        new_BT, _ = log_probabilities(config, model, rollouts.ids_BW)
        base_BT = rollouts.old_BT if rollouts.base_BT is None else rollouts.base_BT  # which weighs nothing then
        mean = grpo_loss(
            new_BT,
            rollouts.old_BT,
            base_BT,
            rollouts.sampled_BT,
            rollouts.advantages_B,
            config.clip_ratio,
            config.kl_weight,
        )
        count = jnp.sum(rollouts.sampled_BT)
        return mean * count.astype(mean.dtype), count

    return loss_sum


def lag_loss(config: Config, policy_loss: Callable[..., Array], kl_loss: Callable[..., Array]) -> LossSum:
    """The loss of rollouts from policy_loss and kl_loss: means over all sampled tokens, or over all continuations."""
    most = config.max_weight or 1.0

    def loss_sum(model: nnx.Module, rollouts: Rollouts, key: Any) -> tuple[Array, Array]:
        del key  # no dropout: the ratio compares two runs of one function
        new_BT, _ = log_probabilities(config, model, rollouts.ids_BW)
        sampled_BT, old_BT = rollouts.sampled_BT, rollouts.old_BT
        sampler_BT = old_BT if rollouts.sampler_BT is None else rollouts.sampler_BT  # which weighs 1 then
        bounds = config.ratio, config.clip_ratio, config.clip_above, most
        mean = policy_loss(new_BT, old_BT, sampler_BT, sampled_BT, rollouts.advantages_B, *bounds)
        if rollouts.base_BT is not None:
            mean += config.kl_weight * kl_loss(new_BT, old_BT, sampler_BT, rollouts.base_BT, sampled_BT, most)
        count = jnp.sum(sampled_BT) if config.ratio == "token" else jnp.sum(sampled_BT.any(axis=1))
        return mean * count.astype(mean.dtype), count

    return loss_sum


def preference_loss(config: Config, dpo_loss: Callable[..., Array]) -> LossSum:
    """The loss of pairs of answers from dpo_loss, which is that of one pair and takes logits."""

    def loss_sum(model: nnx.Module, pairs: Pairs, key: Any) -> tuple[Array, Array, dict[str, Array]]:
        del key  # no dropout, as in the harness's own loss
        ids_BPW, is_answer_BPW, counts_B = jax.vmap(token_ids)(pairs.ids_BPW), pairs.ids_BPW >= 0, is_pair(pairs)
        logits_BPWV = all_logits(model, pairs.ids_BPW)
        losses_B = jax.vmap(lambda *pair: dpo_loss(*pair, config.dpo_beta))(
            logits_BPWV, pairs.base, ids_BPW, is_answer_BPW
        )

        def summed(logits_BPWV: Array) -> Array:
            log_BPT, _ = jax.vmap(scores)(logits_BPWV[:, :, :-1], ids_BPW[:, :, 1:])
            return jnp.sum(log_BPT * is_answer_BPW[:, :, 1:], axis=2)

        rewards_BP = config.dpo_beta * (summed(logits_BPWV) - summed(pairs.base))
        losses_B = jnp.where(counts_B, losses_B, jnp.zeros_like(losses_B))
        return jnp.sum(losses_B), jnp.sum(counts_B), measured(rewards_BP, counts_B)

    return loss_sum


def mean_cross_entropy(logits_TV: Array, ids_T: Array, pad_id: int) -> Array:
    """The default of next_token_loss: the mean loss of the next token over one story, without padding."""
    targets = ids_T[1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_TV[:-1], jnp.maximum(targets, 0))
    return jnp.sum(losses * (targets != pad_id)) / jnp.maximum(jnp.sum(targets != pad_id), 1)


def accumulation(config: Config, accumulated_gradients: Any) -> Gradients:
    """accumulated_gradients with the number of microbatches and the clipping norm of the config."""
    microbatches, max_norm = config.grad_accumulation_steps, config.clip_norm or math.inf
    trained = nnx.LoRAParam if config.lora_rank else nnx.Param

    def gradients(loss_sum: LossSum, model: Any, ids_BT: Array, key: Any) -> tuple[Array, Any, Array]:
        parts: Any = nnx.split(model, trained, ...)
        graph, parameters, rest = parts

        def loss_of(parameters: Any, ids_BT: Array) -> Any:
            return loss_sum(nnx.merge(graph, parameters, rest), ids_BT, key)[:2]  # without what else is measured

        loss, mean, norm = accumulated_gradients(loss_of, parameters, ids_BT, microbatches, max_norm)
        return loss, mean, norm

    return gradients


def adamw(config: Config, piece: Any) -> optax.GradientTransformation:
    """adamw with a rate of 1, because the schedule scales the updates. A piece that takes no mask decays every
    parameter."""
    masked = "mask" in inspect.signature(piece).parameters
    mask = (functools.partial(decayed, config.decay),) if masked else ()
    transformation: optax.GradientTransformation = piece(1.0, 0.9, config.beta2, 1e-8, config.weight_decay, *mask)
    return transformation


def fsdp_rule(config: Config, fsdp_spec: Any) -> ShardingRule:
    """fsdp_spec as the sharding rule of all arrays."""
    return lambda names, shape, mesh: fsdp_spec(shape, mesh.shape["data"])


@functools.cache
def token_chooser(distribution: Any) -> ChooseToken:
    """Draws a token from sampling_distribution. Cached, because jitted functions are compiled for each chooser."""

    def draw(logits_V: Array, key: PRNGKeyArray, sampling: Sampling) -> Array:
        probabilities_V = distribution(logits_V, sampling.temperature, sampling.top_k, sampling.top_p)
        return jax.random.categorical(key, jnp.log(probabilities_V))

    return draw


class LoaderPosition:
    """The state of a data pipeline, with the interface of a loader, for `save` and `resume`."""

    def __init__(self, state: dict[str, Any] | None = None):
        self.state = state or {}

    def get_state(self) -> dict[str, Any]:
        """The state."""
        return self.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Replaces the state."""
        self.state = state
