"""The probes of problem 61: the learner's forward pass, and what hand-written weights do in the grader's. Run in
workers."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, given, named, to_fill
from grader.problem import Case

LAYERS, ENOUGH, MOST = 2, 0.9, 0.6
UNGRADED, RIGHT, SPREAD = -1, -2, -3  # in place of a position
NAMES = ("embed", "positions", "q", "k", "v", "o", "unembed")


def forward(subject: Subject, case: Case) -> Reading:
    """The logits and patterns of the learner's model with random weights."""

    def program(weights: Arrays, token_ids: Any) -> Arrays:
        return _parts(subject, "attention_only", weights, token_ids)

    return subject.run(program, case, _filled(case), given(case, "token_ids"))


def composed(subject: Subject, case: Case) -> Reading:
    """The three composition scores of random weights."""
    return subject.run(lambda weights: _parts(subject, "compositions", weights), case, _filled(case))


def _parts(subject: Subject, entry: str, *args: Any) -> Arrays:
    result = subject.call(entry, *args)
    return dict(named(OrderedDict(zip(subject.problem.entry(entry).returns, result, strict=True)), "output"))


def _filled(case: Case) -> Arrays:
    V, D, K, P = (int(case.values[name]) for name in "VDKP")
    shapes = zip(NAMES, _shapes(V, P, D, K), strict=True)
    return {name: to_fill(f"{name}.kernel", shape, jnp.float32) for name, shape in shapes}


def _shapes(V: int, P: int, D: int, K: int) -> list[tuple[int, ...]]:
    return [(V, D), (P, D), *[(LAYERS, D, K)] * 3, (LAYERS, K, D), (D, V)]


def written(subject: Subject, case: Case) -> Reading:
    """What a model with the learner's hand-written weights does at each position: its likeliest token where one is to
    be copied (`tokens`), whether it is sure of it (`sure`), and where each layer looks (`previous`, `induction`).
    UNGRADED elsewhere.
    """
    V, P = int(case.values["vocab_size"]), int(case.values["max_T"])

    def program(token_ids: Any) -> Arrays:
        weights = _checked(subject.call("induction_weights", V, P), V, P)
        logits, patterns = run(weights, token_ids)
        T = len(token_ids)
        t, s = jnp.arange(T)[:, None], jnp.arange(T)[None]
        after = (token_ids[s - 1] == token_ids[t]) & (s >= 1) & (s <= t)  # s follows an earlier occurrence of token t
        follower = jnp.max(jnp.where(after, token_ids[s], -1), axis=1)
        graded = jnp.any(after, axis=1) & ~jnp.any(after & (token_ids[s] != follower[:, None]), axis=1)
        odds = jnp.take_along_axis(jax.nn.softmax(logits, axis=1), jnp.maximum(follower, 0)[:, None], axis=1)[:, 0]

        def where(there: Any, value: Any) -> Any:
            return jnp.where(there, value.astype(jnp.int32), UNGRADED)

        def looks(pattern: Any, right: Any) -> Any:
            most = jnp.where(jnp.max(pattern, axis=1) > MOST, jnp.argmax(pattern, axis=1), SPREAD)
            return jnp.where(jnp.sum(pattern * right, axis=1) > ENOUGH, RIGHT, most)

        return {
            "tokens": where(graded, jnp.argmax(logits, axis=1)),
            "sure": where(graded, odds > ENOUGH),
            "previous": where(t[:, 0] > 0, looks(patterns[0], s == t - 1)),
            "induction": where(graded, looks(patterns[1], after)),
        }

    return subject.run(program, case, given(case, "token_ids"))


def run(weights: Mapping[str, Any], token_ids: Any) -> tuple[Any, Any]:
    """The logits (T, V) and the attention patterns (2, T, T) of the page's model."""
    T = len(token_ids)
    x, patterns = weights["embed"][token_ids] + weights["positions"][:T], []
    for layer in range(LAYERS):
        q, k, v = (x @ weights[name][layer] for name in "qkv")
        scores = jnp.where(jnp.tri(T, dtype=bool), q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
        patterns.append(jax.nn.softmax(scores, axis=1))
        x = x + patterns[-1] @ v @ weights["o"][layer]
    return x @ weights["unembed"], jnp.stack(patterns)


def _checked(weights: Any, V: int, P: int) -> Arrays:
    """The weights as float32 arrays. Raises BadOutputError if one is missing or has another shape than the page
    says."""
    if not isinstance(weights, Mapping):
        raise BadOutputError(f"`induction_weights` returned {described(weights)}; it must return a dictionary")
    if set(weights) != set(NAMES):
        raise BadOutputError(
            f"`induction_weights` returned the keys {', '.join(sorted(map(str, weights)))}; they must be "
            f"{', '.join(NAMES)}"
        )
    arrays = {name: jnp.asarray(weights[name], jnp.float32) for name in NAMES}
    D, K = arrays["embed"].shape[-1], arrays["q"].shape[-1]
    for (name, array), shape in zip(arrays.items(), _shapes(V, P, D, K), strict=True):
        if array.shape != shape:
            raise BadOutputError(
                f"`induction_weights` returned `{name}` of shape {array.shape}; with D = {D} and K = {K} it must be "
                f"{shape}"
            )
    return arrays


PROBES = {"forward": forward, "composed": composed, "written": written}
