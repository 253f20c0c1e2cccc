"""Problem 73, played: 200 updates of the bias share the tokens of the trained model's stories among the experts, and
none is dropped."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Story, Token
from problems.stage.model import into_attention
from problems.stage.weights import held_out, token

EXPERTS, CHOSEN, LAYER = 8, 2, 2
T, STORIES, STEPS, RATE = 128, 12, 200, 0.003
ROOM = 1.25  # in problem 48, times the mean


def play(module: LearnerModule) -> Exhibits:
    """The fullest expert while the bias changes, the tokens of all experts, the rows that are computed, a story."""
    ids_NT = np.stack([ids[:T] for ids in held_out(STORIES)])
    x = jax.vmap(lambda ids: into_attention(ids, LAYER))(ids_NT).reshape(STORIES * T, -1)
    w = uneven_router(x)

    def choose(bias: Any) -> np.ndarray:
        return np.asarray(module.route(x, w, bias, CHOSEN)[0])

    bias, fullest = jnp.zeros(EXPERTS), []
    first = chosen = choose(bias)
    for _ in range(STEPS):
        bias = jnp.asarray(module.update_bias(bias, counts_of(chosen), RATE))
        chosen = choose(bias)
        fullest.append(counts_of(chosen).max() / counts_of(chosen).mean())
    before, after = counts_of(first), counts_of(chosen)
    yield Lines(
        "The fullest expert, while your rule changes the bias",
        (
            Line("with your updates", np.arange(STEPS), fullest),
            Line("bias 0", np.arange(STEPS), np.full(STEPS, before.max() / before.mean())),
        ),
        f"At first one expert has {before.max() / before.mean():.1f} times the mean, at the end "
        f"{after.max() / after.mean():.2f} times. No loss pulled at the router."
        if after.max() < 1.2 * after.mean()
        else f"After {STEPS} steps, the fullest expert still has {after.max() / after.mean():.1f} times the mean: does "
        "the bias fall where there are too many tokens, and does it count in the choice?",
        x="step",
        y="tokens, as a multiple of the mean",
    )
    yield Bars(
        "The tokens of each expert",
        tuple(
            Bar(f"expert {number + 1}", now / before.mean(), then / before.mean())
            for number, (now, then) in enumerate(zip(after, before, strict=True))
        ),
        "as a multiple of the mean",
        "Few experts did most of the work. Which k experts a token uses has changed, and how they are weighed has not."
        if after.max() < 1.2 * after.mean()
        else "The work is still shared unevenly.",
        names=("after the updates", "before"),
    )
    done = computed(module, x, w)
    least = np.minimum(before, ROOM * before.mean()).sum() / before.sum()
    yield Bars(
        "Choices that are computed, without any updates",
        (Bar("yours", 100 * done), Bar("room as in problem 48", 100 * least)),
        "percent",
        f"With room for {ROOM} times the mean, {1 - least:.0%} of the choices would be dropped. Yours computes all."
        if done > 0.999
        else f"Your layer loses {1 - done:.0%} of the choices.",
    )
    moved = [len(set(now) - set(then)) for now, then in zip(chosen[:T], first[:T], strict=True)]
    yield Story(
        "Which tokens of a story got other experts because of the bias",
        tuple(Token(token(each), None, int(count)) for each, count in zip(ids_NT[0], moved, strict=True)),
        f"{sum(count == 0 for count in moved)} of {T} tokens kept both of their experts.",
        kinds=("both kept", "one changed", "both changed"),
    )


def uneven_router(x: jax.Array) -> jax.Array:
    """A router, (D, E), that likes some experts better than others for every token: for what tokens have in common."""
    D, (one, other) = x.shape[1], jax.random.split(jax.random.key(2))
    common = x.mean(axis=0) / jnp.linalg.norm(x.mean(axis=0))
    each = 2 * jnp.outer(common, jax.random.normal(other, (EXPERTS,)))
    return (jax.random.normal(one, (D, EXPERTS)) + each) / D**0.5


def counts_of(chosen: np.ndarray) -> np.ndarray:
    """How many tokens chose each expert."""
    return np.bincount(chosen.ravel(), minlength=EXPERTS).astype(np.int32)


def computed(module: LearnerModule, x: jax.Array, w: jax.Array) -> float:
    """The share of the choices that the layer computes, by weight. All experts are the same here, so the output of each
    token is that of one expert, if nothing is lost. The shared expert gives 0."""
    D, F = x.shape[1], 8
    w_in, w_out = (jax.random.normal(jax.random.key(2), shape) for shape in ((D, 2 * F), (F, D)))
    shared = jnp.zeros((D, 2)), jnp.zeros((1, D))

    def layer(x: jax.Array, w: jax.Array, k: int) -> np.ndarray:
        E = w.shape[1]
        same = jnp.stack([w_in] * E), jnp.stack([w_out] * E)
        return np.asarray(module.moe(x, w, jnp.zeros(E), k, *same, *shared)[0])

    one, all_of_them = layer(x, w[:, :1], 1), layer(x, w, CHOSEN)
    return float((all_of_them * one).sum() / (one * one).sum())
