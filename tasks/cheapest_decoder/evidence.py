"""The evidence of the cheapest decoder: a witness runs it on held-out prompts, counts what it costs, and compares what
it writes with the model's distribution."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Offer, RefusedProgramError, Repeated, Weighed, Witness
from harness.data.pocket import stories
from problems.stage.model import gpt
from problems.stage.weights import POCKET, encode
from tasks.cheapest_decoder.offer import PROMPT, WEIGHT, WRITTEN, V

BYTE = 20  # operations that an H100 computes in float32 while it reads one byte: 67e12 / 3.35e12
PROMPTS, KEYS = 4, 8
SAME = 1e-4  # logits of the greatest and of a chosen token differ by less, if only roundings differ
# The right distribution exceeds each of these limits once in a million tests.
DEVIATIONS = 4.9  # of a normal number
MOST, BINS = 64.5, 20  # of chi-square with 19 degrees of freedom
CERTAIN = 0.9  # a token that is more probable is nearly certain


def weigh(offered: Offer, seed: int, witness: Witness) -> Iterator[tuple[int, int, float] | Weighed]:
    """Decodes held-out prompts. Yields reports of progress, then what was found. Raises RefusedProgramError."""
    compiled = witness.sound(offered.programs["decode"])
    weights = {WEIGHT + name: jnp.asarray(array) for name, array in POCKET.arrays.items()}
    known = {*weights, "prompt", "key", "greedy"}
    inputs = compiled.program.inputs
    if other := next((each.name for each in inputs if each.source != "case" or each.name not in known), ""):
        raise RefusedProgramError(f"its program takes an array that does not exist, {other!r:.60}")
    if dict(zip(compiled.program.outputs, compiled.output_shapes, strict=True)) != {"tokens": (WRITTEN,)}:
        raise RefusedProgramError("it returns another number of tokens")
    rng = np.random.default_rng(seed)
    costs = {True: Repeated(compiled), False: Repeated(compiled)}
    asked = [(prompt, greedy) for prompt in _prompts(rng) for greedy in (True, *[False] * KEYS)]
    rows = []
    for number, (prompt, greedy) in enumerate(asked):
        key = rng.integers(2**32, size=2, dtype=np.uint32)
        given = {"prompt": prompt, "key": key, "greedy": np.bool_(greedy)}
        tokens = np.asarray(costs[greedy]({**weights, **given})["tokens"])
        if tokens.min() < 0 or tokens.max() >= V:
            raise RefusedProgramError(f"it writes a token that does not exist, {tokens.min()} or {tokens.max()}")
        rows.append(np.concatenate([prompt, tokens]))
        if number % PROMPTS == 0:
            yield number, len(asked), 0.0
    ids, sampled = np.stack(rows), np.array([not greedy for _, greedy in asked])
    logits = np.concatenate([np.asarray(_logits()(part)) for part in np.split(ids[:, :-1], PROMPTS)], dtype=np.float64)
    _check_greedy(ids[~sampled], logits[~sampled])
    _check_sampled(ids[sampled], logits[sampled], rng)
    yield _weighed(costs)


def _weighed(costs: dict[bool, Repeated]) -> Weighed:
    """The mean cost of a greedy and of a sampled text, together."""
    pieces: dict[str, int] = {}
    for greedy, cost in costs.items():
        texts = PROMPTS if greedy else PROMPTS * KEYS
        pieces["reading"] = pieces.get("reading", 0) + BYTE * cost.bytes_read // texts
        for name, work in cost.work.items():
            pieces[name] = pieces.get(name, 0) + work // texts
    figures = {"bytes read": pieces["reading"] // BYTE, "scalar operations": sum(pieces.values()) - pieces["reading"]}
    return Weighed(sum(pieces.values()), "", figures, pieces)


def _check_greedy(ids: Any, logits: Any) -> None:
    """Raises RefusedProgramError if texts are not the model's greedy ones. `ids` (N, T + 1), `logits` (N, T, V)."""
    chosen = np.take_along_axis(logits, ids[:, 1:, None], -1)[..., 0]
    wrong = (logits.max(-1) - chosen > SAME)[:, PROMPT - 1 :]
    if wrong.any():
        first = min(int(row.argmax()) for row in wrong if row.any()) + 1
        raise RefusedProgramError(f"its greedy text differs from the model's, at first in token {first}")


def _check_sampled(ids: Any, logits: Any, rng: Any) -> None:
    """Raises RefusedProgramError if texts are not drawn from the model's distribution.

    The sum of the log-probabilities of tokens has a known mean and variance. It shows another temperature. A token,
    with a uniform number for its place inside the token's own probability, has a quantile that is uniform in [0, 1), in
    whatever order the tokens are laid out: by probability, and at random. Where one token is nearly certain, all
    quantiles are nearly uniform, so only the other places count.
    """
    if len(np.unique(ids, axis=0)) < len(ids):
        raise RefusedProgramError("it writes the same text with two keys")
    scores, tokens = logits[:, PROMPT - 1 :].reshape(-1, V), ids[:, PROMPT:].reshape(-1, 1)
    scores = scores - scores.max(-1, keepdims=True)
    scores = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    chances = np.exp(scores)
    here, mean = np.take_along_axis(scores, tokens, -1)[:, 0], (chances * scores).sum(-1)
    variance = (chances * scores**2).sum(-1) - mean**2
    different = abs(np.sum(here - mean)) > DEVIATIONS * np.sqrt(variance.sum())
    open_ = chances.max(-1) < CERTAIN
    for order in (-chances, np.broadcast_to(rng.permutation(V), chances.shape)):
        before = order < np.take_along_axis(order, tokens, -1)
        quantiles = ((chances * before).sum(-1) + rng.random(len(tokens)) * np.exp(here))[open_]
        counts, expected = np.histogram(quantiles, BINS, (0, 1 + 1e-9))[0], len(quantiles) / BINS
        different |= np.sum((counts - expected) ** 2) > MOST * expected
    if different:
        raise RefusedProgramError("its sampled tokens do not have the model's distribution")


def _prompts(rng: Any) -> list[Any]:
    """The first ids of stories that no run has seen."""
    found = (encode(text) for text in stories(10 * PROMPTS, seed=int(rng.integers(1, 2**62))))
    return [ids[:PROMPT] for ids in found if len(ids) >= PROMPT][:PROMPTS]


@cache
def _logits() -> Any:
    """A function that returns the model's logits on rows."""
    graph, state = nnx.split(gpt())
    return jax.jit(lambda ids: nnx.merge(graph, state)(ids))
