"""The probes of problem 75: what the logits depend on, model and module apart, and texts that are written. Run in
workers."""

import ast
import itertools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, given, named
from grader.problem import Case
from problems.p75_multi_token.problem import MODEL, PARTS, WRITE, guessed, likely

D, MOST, NONE = 2, 1000, -1  # numbers of a hidden state, calls of `run`, no token
LOUD = 100.0  # is added to all logits: their exponentials are infinite in float32
QUARTERS, HALVES, EIGHTHS = (0.125, 0.375, 0.625, 0.875), (0.25, 0.75), (0.3125, 0.8125)


def sight(subject: Subject, case: Case) -> Reading:
    """Which tokens the rows of both logits depend on: 1 at (t, s) if another token s changes any bit of row t."""
    graphdef, parameters, rest = subject.build(MODEL, case)
    V: Any = case.values["vocab_size"]

    def program(parameters: Any, token_ids: Any) -> Arrays:
        T = len(token_ids)

        def both(s: Any) -> Any:
            ids = jnp.where(jnp.arange(T) == s, (token_ids + 1) % V, token_ids)
            return _pair(nnx.merge(graphdef, parameters, rest)(ids), T)

        # One loop computes them all, also the unchanged ones (s = T), because another program could round differently.
        rows = jax.tree.map(lambda *each: jnp.stack(each), *map(both, range(T + 1))) if subject.eager else jax.lax.map(
            both, jnp.arange(T + 1)
        )  # fmt: skip
        depends = [jnp.any(each[:T] != each[T:], axis=-1).T.astype(jnp.int32) for each in rows]
        return {"sight.logits": depends[0], "sight.ahead": depends[1]}

    return subject.run(program, case, parameters, given(case, "token_ids"))


def apart(subject: Subject, case: Case) -> Reading:
    """The logits and hidden states of `run`, and the logits of `ahead` on the first of these states."""
    graphdef, parameters, rest = subject.build(MODEL, case)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        T, model = len(token_ids), nnx.merge(graphdef, parameters, rest)
        logits, hidden = _pair(model.run(token_ids), T, "run", T)
        ahead = model.ahead(hidden[: T - 2], token_ids[1 : T - 1])
        return {**named(logits, "apart.logits"), **named(hidden, "apart.hidden"), **named(ahead, "apart.ahead")}

    return subject.run(program, case, parameters, given(case, "token_ids"))


def _pair(result: Any, T: int, method: str = "__call__", second: int | None = None) -> tuple[Any, Any]:
    """The two arrays that a method returned. Raises BadOutputError if they are not T and T - 1, or `second`, rows."""
    second = T - 1 if second is None else second
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise BadOutputError(f"`{method}` returned {described(result)}; it must return a tuple of two arrays")
    for each, rows in zip(result, (T, second), strict=True):
        if len(jnp.shape(each)) != 2 or len(each) != rows:
            raise BadOutputError(f"`{method}` returned {described(each)} for {T} tokens; it must have {rows} rows")
    return result[0], result[1]


class Model:
    """A model in another process, whose distributions nobody else knows. It counts its runs.

    A hidden state is two numbers that stand for the text up to its position. The module guesses well if it gets the
    hidden states of a text and the tokens that follow each.
    """

    def __init__(self, case: Case):
        self.salt, self.V = int(np.asarray(case.values["salt"])[0]), int(case.values["V"])
        self.runs, self.texts = 0, dict[tuple[float, ...], tuple[int, ...]]()

    def answer(self, question: list[Any]) -> Any:
        """The logits and the hidden states of a run, the logits of the module, or the number of runs so far."""
        kind, *arguments = question
        if kind == "runs":
            return self.runs
        if kind == "run":
            self.runs += 1
            if self.runs > MOST:
                raise BadOutputError(f"`{WRITE}` has called `model.run` {MOST} times, and it does not end")
            (token_ids,) = arguments
            texts = [tuple(token_ids[: end + 1]) for end in range(len(token_ids))]
            hidden = [self._hidden(text) for text in texts]
            return [[self._logits(likely(self.salt, self.V, text)) for text in texts], hidden]
        hidden, next_ids = arguments
        seen = [(*map(float, row), token_id) for row, token_id in zip(hidden, next_ids, strict=True)]
        texts = [(*self.texts.get(tuple(row), ()), token_id) for row, token_id in zip(hidden, next_ids, strict=True)]
        return [self._logits(guessed(self.salt, self.V, text, seen[: place + 1])) for place, text in enumerate(texts)]

    def _hidden(self, text: tuple[int, ...]) -> list[float]:
        row = [float(hash((self.salt, place, *text)) % (1 << 20)) / (1 << 20) for place in range(D)]
        self.texts[tuple(row)] = text
        return row

    def _logits(self, parts: Any) -> list[float]:
        return (np.log(parts / PARTS) + LOUD).tolist()

    def arrays(self) -> dict[str, Any]:
        return {"written.runs": np.int32(self.runs)}


class Remote:
    """The model that `write` gets: it asks the one in the other process."""

    def __init__(self, subject: Subject, V: int):
        self._subject, self._V = subject, V

    def run(self, token_ids: Any) -> tuple[np.ndarray, np.ndarray]:
        logits, hidden = self._subject.ask(["run", self._ids(token_ids, "run")])
        return np.array(logits, np.float32), np.array(hidden, np.float32)

    def ahead(self, hidden: Any, next_ids: Any) -> np.ndarray:
        rows, ids = np.asarray(hidden, np.float32), self._ids(next_ids, "ahead")
        if rows.shape != (len(ids), D):
            raise BadOutputError(
                f"`model.ahead` was called with {described(hidden)} and {len(ids)} tokens; it needs the hidden states "
                f"({len(ids)}, {D}) of the positions before them"
            )
        return np.array(self._subject.ask(["ahead", rows.tolist(), ids]), np.float32)

    def _ids(self, token_ids: Any, method: str) -> list[int]:
        ids = np.asarray(token_ids)
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise BadOutputError(
                f"`model.{method}` was called with {described(token_ids)}; it takes at least one token, from 0 to "
                f"{self._V - 1}, in an array of integers (T,)"
            )
        strange = ids[(ids < 0) | (ids >= self._V)]
        if len(strange):
            raise BadOutputError(f"`model.{method}` was called with token {strange[0]}; tokens are 0 to {self._V - 1}")
        return [int(each) for each in ids]


def _written(subject: Subject, model: Remote, prompt: list[int], count: int, uniforms: Any) -> list[int]:
    result = subject.call(WRITE, model, list(prompt), count, np.array(uniforms, np.float32))
    try:
        tokens = [int(each) for each in result]
    except (TypeError, ValueError):
        raise BadOutputError(f"`{WRITE}` returned {described(result)}; it must return a list of tokens") from None
    return [*tokens, *[NONE] * (count - len(tokens))]


@eager
def writing(subject: Subject, case: Case) -> Reading:
    """The text that `write` returns."""
    values: Mapping[str, Any] = case.values
    prompt, uniforms = ast.literal_eval(values["prompt"]), ast.literal_eval(values["uniforms"])
    some = _written(subject, Remote(subject, values["V"]), prompt, values["count"], uniforms)
    length = len(some) - some.count(NONE)
    tokens = np.full(values["count"], NONE, np.int32)
    tokens[: len(some)] = some[: len(tokens)]
    return Reading({"written.tokens": tokens, "written.length": np.int32(length)})


@eager
def law(subject: Subject, case: Case) -> Reading:
    """The distribution of the two tokens after the first, (2, 2), over a grid of uniform numbers that stands for all.
    Also the tokens of each way, which only who writes them knows, and the length of the longest text.

    The module drafts each token with one half. The model gives one quarter and three quarters. So a draft is accepted
    with one half or surely, and what is left after a rejection is one token.
    """
    model, prompt = Remote(subject, 2), ast.literal_eval(str(case.values["prompt"]))
    firsts, seconds = ([*itertools.product(HALVES, HALVES, last)] for last in (QUARTERS, EIGHTHS))
    shares, tokens, longest = np.zeros((2, 2)), [], 0
    for first in firsts:
        texts = []
        for second in seconds:
            runs = subject.ask(["runs"])
            text = _written(subject, model, prompt, 3, [(0.5, 0.5, 0.125), first, second])
            texts.append(text[1:3])
            longest = max(longest, len(text))
            if subject.ask(["runs"]) - runs < 3:  # two runs gave all tokens, so the numbers of a third decide nothing
                texts = [text[1:3]] * len(seconds)
                break
        tokens.append(texts)
    pairs = np.array(tokens, np.int32)
    for pair in itertools.product(range(2), repeat=2):
        shares[pair] = (pairs == pair).all(axis=-1).mean()
    return Reading({"law.longest": np.int32(longest), "law.shares": shares, "law.tokens": pairs})


PROBES = {"sight": sight, "apart": apart, "writing": writing, "law": law}
PARTNERS = {"model": Model}
