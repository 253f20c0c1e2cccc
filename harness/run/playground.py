"""Samples from a run and shows what its model computes: the probability of each token, and where attention goes.

A program of its own (`harness playground`): the studio starts it, because a run's pieces are a learner's code. It reads
requests and writes answers, one line of JSON each.
"""

import base64
import codecs
import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from commandline.errors import CommandError
from harness.errors import UsageError
from harness.model.sampling import Sampling, distribution
from harness.pieces.load import attribute_errors_to
from harness.run.attention_maps import attention_maps
from harness.run.run_session import Session
from harness.run.state import load_state

LIKELIEST = 10  # tokens that are named for each position
MOST_TOKENS = 4096  # of a text
_SHORT_WINDOW = 256  # tokens; shorter windows are padded, so that few programs are compiled


class Token(NamedTuple):
    """One token of a text, and what the model expected in its place."""

    id: int
    text: str  # empty if the character is not complete
    probability: float | None  # None for the first token of a text
    likeliest: list[tuple[int, str, float]]  # id, text and probability, the largest first


class Playground:
    """A trained model that is asked about texts."""

    def __init__(self, session: Session):
        self.session = session
        self.step, state = load_state(session)
        self.model: Any = session.functions.model(state)
        self.tokenizer = session.tokenizer
        self._graph, self._parameters = nnx.split(self.model)
        self._maps: tuple[list[int], list[np.ndarray]] = ([], [])

    @property
    def prompt(self) -> str:
        """The default prompt."""
        return self.session.prompt

    def read(self, ids: list[int], sampling: Sampling) -> list[Token]:
        """Each token of a text, with the probabilities under these settings.

        In a text longer than the context, a token's probability depends on at least the half of a context before it.
        """
        predictions: list[tuple[float, list[tuple[int, str, float]]]] = []  # of each token but the first
        context = self.session.config.context
        stride = max(context // 2, 1)
        for start in range(0, max(len(ids) - context, 0) + stride, stride):
            window = self._window(ids[start : start + context])
            arguments = (self._parameters, window.ids, sampling.temperature, sampling.top_k, sampling.top_p)
            best, best_ids, following = jax.device_get(self._run(functools.partial(_read(self._graph), *arguments)))
            for place in range(len(predictions) - start, window.length - 1):
                predictions.append((float(following[place]), self._likeliest(best[place], best_ids[place])))
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        texts = [decode(self._bytes(token_id)) for token_id in ids]
        known = [(None, []), *predictions]
        known += [(None, [])] * (len(ids) - len(known))  # a context of one token predicts nothing here
        return [
            Token(token_id, text, *prediction) for token_id, text, prediction in zip(ids, texts, known, strict=True)
        ]

    def next(self, ids: list[int], sampling: Sampling) -> Token:
        """The token that is drawn after a text."""
        window = self._window(ids)
        key = jax.random.fold_in(jax.random.key(sampling.seed), len(ids))
        settings = (sampling.temperature, sampling.top_k, sampling.top_p)
        arguments = (self._parameters, window.ids, window.length - 1, key, *settings)
        chosen, probability, best, best_ids = jax.device_get(self._run(lambda: _next(self._graph)(*arguments)))
        return Token(int(chosen), "", float(probability), self._likeliest(best, best_ids))

    def continuation(self, ids: list[int], sampling: Callable[[], Sampling]) -> Iterator[Token]:
        """The tokens after a text, up to end-of-text (not included). The settings are asked for before each."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        ids, start = list(ids), len(ids)
        while len(ids) - start < sampling().max_tokens and len(ids) < MOST_TOKENS:
            token = self.next(ids, sampling())
            if token.id == self.session.end_of_text:
                return
            ids.append(token.id)
            yield token._replace(text=decode(self._bytes(token.id)))

    def attention(self, ids: list[int]) -> list[np.ndarray]:
        """The attention weights of the last `context` tokens: `(H, T, T)` for each layer."""
        if self._maps[0] != ids:
            window = self._window(ids[-_SHORT_WINDOW:])
            T, heads = window.length, self.session.config.num_heads
            maps = self._run(lambda: attention_maps(self.model, window.ids, heads))
            self._maps = list(ids), [weights[:, :T, :T] for weights in maps]
        return self._maps[1]

    def _run(self, work: Callable[[], Any]) -> Any:
        return attribute_errors_to(self.session.pieces, work)

    def _window(self, ids: list[int]) -> "_Window":
        context = self.session.config.context
        last = ids[-context:]
        width = min(context, max(_SHORT_WINDOW, 1 << (len(last) - 1).bit_length()))
        padded = np.zeros(width, np.int32)  # padding changes nothing before it
        padded[: len(last)] = last
        return _Window(padded, len(last))

    def _bytes(self, token_id: int) -> bytes:
        return self.tokenizer.decode_single_token_bytes(token_id) if token_id < self.tokenizer.n_vocab else b""

    def _likeliest(self, probabilities: np.ndarray, ids: np.ndarray) -> list[tuple[int, str, float]]:
        return [
            (int(token_id), self._bytes(int(token_id)).decode("utf-8", "replace"), float(probability))
            for token_id, probability in zip(ids, probabilities, strict=True)
            if probability > 0
        ]


class _Window(NamedTuple):
    ids: np.ndarray
    length: int


@functools.lru_cache(maxsize=2)
def _read(graph: Any) -> Any:
    """A jitted function: at each position the likeliest next tokens, and the probability of the one that follows."""

    @jax.jit
    def read(parameters: Any, ids: Any, temperature: Any, top_k: Any, top_p: Any) -> Any:
        logits_TV = nnx.merge(graph, parameters)(ids)

        def position(carry: None, inputs: Any) -> tuple[None, Any]:
            logits_V, following = inputs
            probabilities, order = distribution(logits_V, temperature, top_k, top_p)
            return carry, (
                probabilities[:LIKELIEST], order[:LIKELIEST], jnp.sum(probabilities * (order == following))
            )  # fmt: skip

        return jax.lax.scan(position, None, (logits_TV, jnp.roll(ids, -1)))[1]

    return read


@functools.lru_cache(maxsize=2)
def _next(graph: Any) -> Any:
    """A jitted function that draws the token after the one at index `last`."""

    @jax.jit
    def draw(parameters: Any, ids: Any, last: Any, key: Any, temperature: Any, top_k: Any, top_p: Any) -> Any:
        logits_V = nnx.merge(graph, parameters)(ids)[last]
        probabilities, order = distribution(logits_V, temperature, top_k, top_p)
        chosen = jax.random.categorical(key, jnp.log(probabilities))
        return order[chosen], probabilities[chosen], probabilities[:LIKELIEST], order[:LIKELIEST]

    return draw


def answer_requests(open_session: Callable[[], Session]) -> None:
    """Answers the requests on stdin until it ends.

    A request is an object with `kind` (`read`, `sample`, `settings`, `stop` or `attention`) and `page`, which its
    answers repeat. `sample` ends early at a `stop` or another request of the same page.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what pieces print is no answer
    requests: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def receive() -> None:
        for line in sys.stdin:
            requests.put(json.loads(line))
        requests.put(None)

    threading.Thread(target=receive, daemon=True).start()
    _Conversation(requests, answers).run(open_session)


class _Conversation:
    """Requests and answers, one after the other."""

    def __init__(self, requests: "queue.Queue[dict[str, Any] | None]", answers: Any):
        self.requests, self.answers = requests, answers
        self.waiting: list[dict[str, Any] | None] = []

    def run(self, open_session: Callable[[], Session]) -> None:
        """Loads the model and answers until the end of the requests. Raises HarnessError if the run cannot be
        loaded."""
        playground = Playground(open_session())
        with jax.set_mesh(playground.session.mesh):
            while (request := self.waiting.pop(0) if self.waiting else self.requests.get()) is not None:
                try:
                    self._answer(playground, request)
                except CommandError as error:
                    self._say(request, "failed", words=str(error))

    def _answer(self, playground: Playground, request: dict[str, Any]) -> None:
        kind = request["kind"]
        if kind in ("stop", "settings"):
            return  # there is nothing to stop or to change
        ids = request["ids"]
        if ids is None:
            ids = playground.session.prompt_ids(request["prompt"])[:MOST_TOKENS]
        if not ids or not all(0 <= token_id < playground.session.config.vocab_size for token_id in ids):
            raise UsageError("This text does not belong to this run's vocabulary.")
        if kind == "attention":
            self._show_attention(playground, request, ids)
            return
        settings = [_sampling(request)]
        tokens = [token._asdict() for token in playground.read(ids, settings[0])]
        self._say(request, "text", tokens=tokens, step=playground.step, context=playground.session.config.context)
        if kind == "sample":
            for token in playground.continuation(ids, lambda: settings[0]):
                self._say(request, "token", **token._asdict())
                if interruption := self._interruption(request):
                    if interruption["kind"] != "settings":
                        break
                    settings[0] = _sampling(interruption)
        self._say(request, "end")

    def _interruption(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The next request of the same page. One that is more than new settings or a stop is answered afterwards."""
        while True:
            try:
                other = self.requests.get_nowait()
            except queue.Empty:
                return None
            if other is None or other["page"] != request["page"]:
                self.waiting.append(other)
                if other is None:
                    return {"kind": "stop"}
                continue
            if other["kind"] not in ("stop", "settings"):
                self.waiting.append(other)
            return other

    def _show_attention(self, playground: Playground, request: dict[str, Any], ids: list[int]) -> None:
        maps = playground.attention(ids)
        sizes = {"layers": len(maps), "heads": len(maps[0]) if maps else 0, "tokens": len(ids)}
        weights = ""
        if maps:
            layer, head = min(request["layer"], len(maps) - 1), min(request["head"], len(maps[0]) - 1)
            bytes_TT = np.rint(maps[layer][head] * 255).astype(np.uint8)
            weights = base64.b64encode(bytes_TT.tobytes()).decode()
            sizes |= {"layer": layer, "head": head, "size": len(bytes_TT)}
        self._say(request, "attention", weights=weights, **sizes)

    def _say(self, request: dict[str, Any], kind: str, **values: Any) -> None:
        print(json.dumps({"page": request["page"], "kind": kind, **values}), file=self.answers, flush=True)


def _sampling(request: dict[str, Any]) -> Sampling:
    return Sampling(request["temperature"], request["top_k"], request["top_p"], request["seed"], request["max_tokens"])
