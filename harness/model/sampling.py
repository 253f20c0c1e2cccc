"""Sampling: continues a prompt token by token, with a key-value cache, or by rerunning the whole window.

Several continuations of prompts of one length are sampled together, without a step of Python in between.
"""

import codecs
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import tiktoken
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from harness.errors import UsageError
from harness.model.gpt import GPT

SHORTEST_WINDOW = 64
PROMPTS = {"next_token": "Once upon a time, there was", "copy": "Every effort moves you"}


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 keep all tokens."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    seed: int = 0
    max_tokens: int = 256
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for valid, option, rule in (
            (self.temperature >= 0, f"--temperature {self.temperature}", "at least 0; 0 is greedy"),
            (self.top_k >= 0, f"--top-k {self.top_k}", "at least 0; 0 keeps all tokens"),
            (0 < self.top_p <= 1, f"--top-p {self.top_p}", "more than 0 and at most 1; 1 keeps all tokens"),
            (0 <= self.min_p <= 1, f"--min-p {self.min_p}", "at least 0 and at most 1; 0 keeps all tokens"),
            (self.max_tokens > 0, f"--max-tokens {self.max_tokens}", "at least 1"),
        ):
            if not valid:
                raise UsageError(f"{option} is not valid; it must be {rule}.")


def choose_token(logits_V: Float[Array, "V"], key: PRNGKeyArray, sampling: Sampling) -> Int[Array, ""]:
    """Draws one token id: temperature first, then top-k, then top-p (Holtzman et al. 2020), then min-p.

    Top-p keeps the fewest tokens whose probabilities sum to at least p, including the one that reaches p.
    """
    if sampling.temperature == 0:
        return jax.lax.top_k(logits_V, 1)[1][0]  # a quarter of the time of argmax on a CPU
    scaled_V = logits_V / sampling.temperature
    V = len(logits_V)
    if sampling.top_k and sampling.top_k < V:
        count = sampling.top_k
    elif sampling.top_p < 1:
        count = V
    else:
        return jax.random.categorical(key, _likely(scaled_V, sampling.min_p))
    best, ids = jax.lax.top_k(scaled_V, count)
    if sampling.top_p < 1:
        probabilities = jax.nn.softmax(best)
        before = jnp.cumsum(probabilities) - probabilities
        best = jnp.where(before < sampling.top_p, best, -jnp.inf)
    return ids[jax.random.categorical(key, _likely(best, sampling.min_p))]


def _likely(logits_V: Float[Array, "V"], min_p: float) -> Float[Array, "V"]:
    """The logits of tokens at least `min_p` times as likely as the likeliest (Nguyen et al. 2024); others are -inf."""
    return jnp.where(logits_V >= logits_V.max() + math.log(min_p), logits_V, -jnp.inf) if min_p else logits_V


def distribution(
    logits_V: Float[Array, "V"], temperature: Array | float, top_k: Array | int, top_p: Array | float
) -> tuple[Float[Array, "V"], Int[Array, "V"]]:
    """The probabilities with which `choose_token` draws, the largest first, and their ids. All arguments may be
    traced."""
    V = len(logits_V)
    # The limit of low temperatures is greedy. Dividing by less would overflow.
    scaled, ids = jax.lax.top_k(logits_V / jnp.maximum(temperature, 1e-6), V)
    count = jnp.where(temperature == 0, 1, jnp.where(top_k == 0, V, top_k))
    kept = jnp.where(jnp.arange(V) < count, scaled, -jnp.inf)
    probabilities = jax.nn.softmax(kept)
    before = jnp.cumsum(probabilities) - probabilities
    return jax.nn.softmax(jnp.where((before < top_p) | (top_p >= 1), kept, -jnp.inf)), ids


ChooseToken = Callable[[Array, PRNGKeyArray, Sampling], Array]


@runtime_checkable
class Decoder(Protocol):
    """Chooses the token after a prompt, then the token after each further one."""

    def prefill(self, ids: list[int], key: PRNGKeyArray) -> int: ...

    def decode(self, token: int, key: PRNGKeyArray) -> int: ...


class CachedDecoder:
    """Runs one position per token. When the context is full, restarts from its second half."""

    def __init__(self, model: GPT, sampling: Sampling, choose: ChooseToken = choose_token):
        self.context = model.config.context
        self.graph, self.parameters = nnx.split(model)
        self._advance = _cached_step(self.graph, sampling, choose)
        self.ids: list[int] = []
        self.position = 0

    def prefill(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids = ids[-self.context :]
        self.position = len(self.ids)
        bucket = min(1 << (self.position - 1).bit_length(), self.context)  # powers of two: few compilations
        padded = np.zeros((1, bucket), np.int32)
        padded[0, : self.position] = self.ids
        # Padding after the prompt may enter the cache, but each entry is overwritten before it is read.
        token, self.cache = self._advance(self.parameters, padded, np.int32(0), np.int32(self.position - 1), None, key)
        return int(token)

    def decode(self, token: int, key: PRNGKeyArray) -> int:
        self.ids.append(token)
        if self.position == self.context:
            return self.prefill(self.ids[-(self.context // 2 or 1) :], key)
        ids = np.array([[token]], np.int32)
        next_token, self.cache = self._advance(
            self.parameters, ids, np.int32(self.position), np.int32(0), self.cache, key
        )
        self.position += 1
        return int(next_token)


@functools.lru_cache(maxsize=8)
def _cached_step(graph, sampling: Sampling, choose: ChooseToken):
    """A jitted function that runs positions of one story and chooses the token after the one at index `last`.

    It starts from an empty cache if it gets none.
    """

    @functools.partial(jax.jit, donate_argnames="cache")
    def advance(parameters, ids_BT, position, last, cache, key):
        model = nnx.merge(graph, parameters)
        cache = model.empty_cache(1) if cache is None else cache
        logits_BV, cache = model.step(ids_BT, position, last, cache)
        return choose(logits_BV[0], key, sampling), cache

    return advance


@functools.lru_cache(maxsize=8)
def _window_step(graph, sampling: Sampling, choose: ChooseToken):
    """A jitted function that chooses the token after the one at index `last` of a window."""

    @jax.jit
    def next_token(parameters, ids_T, last, key):
        return choose(nnx.merge(graph, parameters)(ids_T)[last], key, sampling)

    return next_token


class WindowDecoder:
    """Reruns the whole window for each token, padded on the right, and reads the logits of the last real token.

    It is padded to a power of two of at least `SHORTEST_WINDOW`, or to the context: few compilations, and a short text
    in a model of a long context costs little.
    """

    def __init__(self, model: nnx.Module, sampling: Sampling, context: int, choose: ChooseToken = choose_token):
        self.context = context
        graph, self.parameters = nnx.split(model)
        self._next_token = _window_step(graph, sampling, choose)
        self.ids: list[int] = []

    def prefill(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids = list(ids)
        window = self.ids[-self.context :]
        padded = np.zeros(min(max(1 << (len(window) - 1).bit_length(), SHORTEST_WINDOW), self.context), np.int32)
        padded[: len(window)] = window
        return int(self._next_token(self.parameters, padded, np.int32(len(window) - 1), key))

    def decode(self, token: int, key: PRNGKeyArray) -> int:
        return self.prefill([*self.ids, token], key)


def generate(decoder: Decoder, ids: list[int], sampling: Sampling, end_of_text: int, number: int = 0) -> Iterator[int]:
    """Yields the tokens after `ids`, up to end-of-text (not included) or `max_tokens`.

    `number` distinguishes several samples with the same seed.
    """
    key = sample_key(sampling.seed, number)
    token = decoder.prefill(ids, step_key(key, 0))
    for index in range(1, sampling.max_tokens + 1):
        if token == end_of_text:
            return
        yield token
        if index < sampling.max_tokens:
            token = decoder.decode(token, step_key(key, index))


# (key of a sample, number of a token) -> key of the token. Jitted, it takes an eighth of the time.
step_key = jax.jit(jax.random.fold_in)


def sample_key(seed: int, number: Array | int) -> PRNGKeyArray:
    """The key of sample `number` of a seed."""
    return jax.random.fold_in(jax.random.key(seed), number)


def generate_batch(
    model: GPT,
    ids_BT: Int[np.ndarray, "B T"],
    sampling: Sampling,
    end_of_text: int,
    keys_B: Key[Array, "B"],
    lengths_B: Int[np.ndarray, "B"] | None = None,
    log_p: list[Float[np.ndarray, "N"]] | None = None,
) -> list[list[int]]:
    """The tokens after each row of `ids_BT`, up to end-of-text (not included) or `max_tokens`. Each row has its own
    key.

    `log_p` gets the log-probabilities, under the model, of the tokens of each row and of its end.

    Rows may be padded at the end to one width; `lengths_B` says how long each is. All batches of a width share one
    program. Rows of one length restart from the second half of the context when it is full, as in `CachedDecoder`; with
    `lengths_B`, the text of a row stops there.
    """
    graph, parameters = nnx.split(model)
    context, B = model.config.context, len(ids_BT)
    done_B, written_BT, log_p_BT = np.zeros(B, bool), np.zeros((B, 0), np.int32), np.zeros((B, 0), np.float32)
    window_BT = np.asarray(ids_BT, np.int32)[:, -context:]
    restarts = lengths_B is None
    if lengths_B is None:
        lengths_B = np.full(B, window_BT.shape[1])
    while written_BT.shape[1] < sampling.max_tokens and not done_B.all():
        room = sampling.max_tokens - written_BT.shape[1]
        if restarts:
            room = min(room, context - window_BT.shape[1] + 1)
        fill = _fill(graph, sampling, end_of_text, room, log_p is not None)
        lengths = lengths_B.astype(np.int32)
        tokens, done, log_p_BN = fill(
            parameters, window_BT, lengths, jnp.array(done_B), keys_B, np.int32(written_BT.shape[1])
        )
        written_BT, done_B = np.concatenate([written_BT, tokens], axis=1), np.asarray(done)
        log_p_BT = np.concatenate([log_p_BT, log_p_BN], axis=1)
        window_BT = np.concatenate([window_BT, tokens], axis=1)[:, -(context // 2 or 1) :]
        lengths_B = np.full(B, window_BT.shape[1])
    texts = [[*itertools.takewhile(lambda token: token != end_of_text, row)] for row in written_BT.tolist()]
    if log_p is not None:
        log_p += [row[: len(text) + 1] for text, row in zip(texts, log_p_BT, strict=True)]
    return texts


@functools.lru_cache(maxsize=8)
def _fill(graph, sampling: Sampling, end_of_text: int, number: int, scored: bool):
    """A jitted function that samples `number` tokens after each row of a window, or until all rows have ended.

    It returns them, whether a row has ended, and their log-probabilities: none unless `scored`.

    Rows that have ended are filled with end-of-text, and so are those that have filled the context: the token after its
    last position is the last one sampled. All rows run the same position at a time. A longer prompt takes its own
    tokens while shorter ones sample theirs.
    """

    @jax.jit
    def fill(parameters, window_BT, lengths_B, done_B, keys_B, index):
        model = nnx.merge(graph, parameters)
        B, last = len(window_BT), min(window_BT.shape[1] + number, model.config.context + 1)
        # The first position with a token to sample. What comes after it is overwritten in the cache before it is read.
        first = jnp.min(lengths_B)
        logits_BV, cache = model.step(window_BT, jnp.int32(0), first - 1, model.empty_cache(B))

        def choose(logits_BV, done_B, ids_BS, log_p_BS, position):
            written_B = position - lengths_B  # negative inside of a prompt
            step_keys_B = jax.vmap(jax.random.fold_in)(keys_B, index + jnp.maximum(written_B, 0))
            token_B = jax.vmap(functools.partial(choose_token, sampling=sampling))(logits_BV, step_keys_B)
            token_B = jnp.where(done_B | (written_B >= number), end_of_text, token_B).astype(jnp.int32)
            own_B = jax.lax.dynamic_index_in_dim(ids_BS, position, axis=1, keepdims=False)
            token_B = jnp.where(written_B < 0, own_B, token_B)
            ids_BS = jax.lax.dynamic_update_slice_in_dim(ids_BS, token_B[:, None], position, axis=1)
            if scored:
                log_p_BV = jax.nn.log_softmax(logits_BV.astype(jnp.float32))
                log_p_B1 = jnp.take_along_axis(log_p_BV, token_B[:, None], axis=1)
                log_p_BS = jax.lax.dynamic_update_slice_in_dim(log_p_BS, log_p_B1, position, axis=1)
            return token_B, done_B | ((token_B == end_of_text) & (written_B >= 0)), ids_BS, log_p_BS, position

        def more(carry):
            _, done_B, _, _, position, _ = carry
            return (position + 1 < jnp.minimum(jnp.max(lengths_B) + number, last)) & ~done_B.all()

        def advance(carry):
            token_B, done_B, ids_BS, log_p_BS, position, cache = carry
            logits_BV, cache = model.step(token_B[:, None], position, jnp.int32(0), cache)
            return *choose(logits_BV, done_B, ids_BS, log_p_BS, position + 1), cache

        empty_BN = jnp.full((B, last - window_BT.shape[1]), end_of_text, jnp.int32)
        ids_BS = jnp.concatenate([window_BT, empty_BN], axis=1)
        log_p_BS = jnp.zeros(ids_BS.shape if scored else (B, 0), jnp.float32)
        begun = (*choose(logits_BV, done_B, ids_BS, log_p_BS, first), cache)
        _, done_B, ids_BS, log_p_BS, _, _ = jax.lax.while_loop(more, advance, begun)
        columns_BN = lengths_B[:, None] + jnp.arange(number)[None, :]
        read = functools.partial(jnp.take_along_axis, indices=columns_BN, axis=1, mode="fill")
        return read(ids_BS, fill_value=end_of_text), done_B, read(log_p_BS, fill_value=0) if scored else log_p_BS

    return fill


def encode_prompt(tokenizer: tiktoken.Encoding, prompt: str) -> list[int]:
    """The ids of a prompt. An empty prompt starts a new story. Raises UsageError if it is not valid Unicode."""
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "The prompt is not valid UTF-8. Type it again, or check the locale of the terminal."
        ) from error
    return tokenizer.encode_ordinary(prompt) or [tokenizer.eot_token]


def on_length(ids: list[int], context: int) -> str:
    """A sentence on a prompt that is longer than the context; empty for others."""
    if len(ids) <= context:
        return ""
    return (
        f"The prompt has {len(ids):,} tokens and the context of the model {context:,}, so its beginning is cut: the "
        f"first {len(ids) - context:,} tokens do not count."
    )


def stream_text(tokenizer: tiktoken.Encoding, tokens: Iterator[int]) -> Iterator[str]:
    """Yields the text of a stream of tokens. A character that spans several tokens is held back until it is complete.

    Ids outside of the tokenizer's vocabulary yield nothing.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        if token < tokenizer.n_vocab and (text := decoder.decode(tokenizer.decode_single_token_bytes(token))):
            yield text
    if rest := decoder.decode(b"", final=True):
        yield rest
