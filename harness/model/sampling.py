"""Continuing a text, one token at a time: from cached keys and values, or, for a model that has none, from the whole window."""

import codecs
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import tiktoken
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.errors import UsageError
from harness.model.gpt import GPT, Cache

PROMPTS = {"next": "Once upon a time, there was", "same": "Every effort moves you"}


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature 0 takes the likeliest; top_k 0 and top_p 1 leave all."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    seed: int = 0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        for rule, sentence in (
            (
                self.temperature >= 0,
                f"--temperature {self.temperature} must not be negative; 0 takes the likeliest token",
            ),
            (self.top_k >= 0, f"--top-k {self.top_k} must not be negative; 0 leaves all tokens"),
            (0 < self.top_p <= 1, f"--top-p {self.top_p} must be more than 0 and at most 1; 1 leaves all tokens"),
            (self.max_tokens > 0, f"--max-tokens {self.max_tokens} must be at least 1"),
        ):
            if not rule:
                raise UsageError(f"{sentence}.")


def choose(logits_V: Float[Array, "V"], key: PRNGKeyArray, sampling: Sampling) -> Int[Array, ""]:
    """One token by its logits. Temperature first, then the k likeliest, then the fewest whose probabilities sum to at least p
    (Holtzman et al. 2020; the one that reaches p is in)."""
    if sampling.temperature == 0:
        return jnp.argmax(logits_V)
    scaled_V = logits_V / sampling.temperature
    V = len(logits_V)
    if sampling.top_k and sampling.top_k < V:
        kept = sampling.top_k
    elif sampling.top_p < 1:
        kept = V
    else:
        return jax.random.categorical(key, scaled_V)
    best, ids = jax.lax.top_k(scaled_V, kept)
    if sampling.top_p < 1:
        probabilities = jax.nn.softmax(best)
        before = jnp.cumsum(probabilities) - probabilities
        best = jnp.where(before < sampling.top_p, best, -jnp.inf)
    return ids[jax.random.categorical(key, best)]


Choose = Callable[[Array, PRNGKeyArray, Sampling], Array]


@runtime_checkable
class Decoder(Protocol):
    """Takes in a prompt, then one token after another; each time gives the token that follows."""

    def begin(self, ids: list[int], key: PRNGKeyArray) -> int: ...

    def follow(self, token: int, key: PRNGKeyArray) -> int: ...


class CachedDecoder:
    """One position a token. When the context is full, goes on from the last half of it."""

    def __init__(self, model: GPT, sampling: Sampling):
        self.context, self.config = model.config.context, model.config
        self.graph, self.parameters = nnx.split(model)
        self._programs = _decoder_programs(self.graph, sampling)
        self.ids: list[int] = []
        self.position = 0

    def begin(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids = ids[-self.context :]
        self.position = len(self.ids)
        bucket = min(1 << (self.position - 1).bit_length(), self.context)  # few shapes, so few compilations
        padded = np.zeros((1, bucket), np.int32)
        padded[0, : self.position] = self.ids
        # Padding behind the prompt goes into the cache too, where each place is written again before it is looked at.
        token, self.cache = self._programs(
            self.parameters, padded, np.int32(0), np.int32(self.position - 1), Cache.empty(self.config, 1), key
        )
        return int(token)

    def follow(self, token: int, key: PRNGKeyArray) -> int:
        self.ids.append(token)
        if self.position == self.context:
            return self.begin(self.ids[-(self.context // 2 or 1) :], key)
        ids = np.array([[token]], np.int32)
        following, self.cache = self._programs(
            self.parameters, ids, np.int32(self.position), np.int32(0), self.cache, key
        )
        self.position += 1
        return int(following)


@functools.lru_cache(maxsize=8)
def _decoder_programs(graph, sampling: Sampling):
    """Runs some positions of one story through the model and chooses what follows the one at `last`."""

    @functools.partial(jax.jit, donate_argnames="cache")
    def advance(parameters, ids_BT, position, last, cache, key):
        logits_BV, cache = nnx.merge(graph, parameters).step(ids_BT, position, last, cache)
        return choose(logits_BV[0], key, sampling), cache

    return advance


@functools.lru_cache(maxsize=8)
def _window_program(graph, sampling: Sampling, choose: Choose):
    """Chooses what follows position `last` of a window."""

    @jax.jit
    def following(parameters, ids_T, last, key):
        return choose(nnx.merge(graph, parameters)(ids_T)[last], key, sampling)

    return following


class WindowDecoder:
    """The whole window again for each token, padded on the right; the logits read are the last real token's."""

    def __init__(self, model: nnx.Module, sampling: Sampling, context: int, choose: Choose = choose):
        self.context = context
        graph, self.parameters = nnx.split(model)
        self._following = _window_program(graph, sampling, choose)
        self.ids: list[int] = []

    def begin(self, ids: list[int], key: PRNGKeyArray) -> int:
        self.ids = list(ids)
        window = self.ids[-self.context :]
        padded = np.zeros(self.context, np.int32)
        padded[: len(window)] = window
        return int(self._following(self.parameters, padded, np.int32(len(window) - 1), key))

    def follow(self, token: int, key: PRNGKeyArray) -> int:
        return self.begin([*self.ids, token], key)


def generate(decoder: Decoder, ids: list[int], sampling: Sampling, end_of_text: int, number: int = 0) -> Iterator[int]:
    """The tokens that follow `ids`, until end-of-text (not given) or `max_tokens`. `number` tells several samples of a seed
    apart."""
    key = jax.random.fold_in(jax.random.key(sampling.seed), number)
    token = decoder.begin(ids, jax.random.fold_in(key, 0))
    for index in range(1, sampling.max_tokens + 1):
        if token == end_of_text:
            return
        yield token
        if index < sampling.max_tokens:
            token = decoder.follow(token, jax.random.fold_in(key, index))


def encode_prompt(tokenizer: tiktoken.Encoding, prompt: str) -> list[int]:
    """The prompt's ids; an empty prompt is the beginning of a story. Raises UsageError for text that is no Unicode."""
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "The prompt is not valid UTF-8 text. Type it again, or check the terminal's locale."
        ) from error
    return tokenizer.encode_ordinary(prompt) or [tokenizer.eot_token]


def stream_text(tokenizer: tiktoken.Encoding, tokens: Iterator[int]) -> Iterator[str]:
    """The text of tokens as they come; a character spread over several tokens comes when it is whole. Ids without text give
    nothing."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        if token < tokenizer.n_vocab and (text := decoder.decode(tokenizer.decode_single_token_bytes(token))):
            yield text
    if rest := decoder.decode(b"", final=True):
        yield rest
