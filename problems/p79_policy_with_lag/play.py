"""Problem 79, played: the trained model, sampled by a coarser copy of itself, and a bandit with a known best policy."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Table
from harness.model.sampling import Sampling, generate_batch
from problems.stage.model import gpt
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import END, POCKET, encode, token

PROMPT = "Once upon a time, there was a girl named"
ROWS, WRITTEN, LEVELS, SHOWN = 12, 24, 7, 3  # 15 values a kernel's column: four bits
MOST = 2.0
REWARDS, COUNTS, KL_WEIGHT = (1.0, 0.5, 0.0), (2, 4, 6), 0.5
ARMS = ("reward 1", "reward ½", "reward 0")
UPDATES, RATE, LOW, HIGH, LARGE, NEAR = 60, 2.0, 0.2, 0.28, 8.0, 0.01


def play(module: LearnerModule) -> Exhibits:
    """What a server of four bits writes and what the trainer thinks of it, then three bandits and their policies."""
    yield gap(module)
    best = np.exp(np.array(REWARDS) / KL_WEIGHT)
    best /= best.sum()
    curves = dict(learned(module))
    *_, ignoring = curves
    final = {name: curve[-1] for name, curve in curves.items()}
    right = [name for name in curves if name != ignoring and np.abs(final[name] - best).max() < NEAR]
    said = (
        "Both reach it with your functions. Where the trainer takes the server's draws for its own, your loss falls as "
        "well, and ends elsewhere."
        if len(right) == 2
        else "Not both reach it with your functions: what they minimize is something else."
    )
    yield Lines(
        "A server draws the worst of three tokens most often. How often does the policy draw the best one?",
        tuple(Line(name, tuple(range(UPDATES + 1)), curve[:, 0].tolist()) for name, curve in curves.items()),
        f"The best policy, with its distance from the base paid for, draws it in {best[0]:.1%}. {said}",
        x="update",
        y="probability",
    )
    for name in list(curves)[:2]:
        yield Bars(
            f"What the policy has learned, {name}",
            tuple(Bar(arm, *pair) for arm, *pair in zip(ARMS, final[name].tolist(), best.tolist(), strict=True)),
            "probability",
            "It is the best policy: the base, ⅓ each, times exp(reward / β)."
            if name in right
            else "It is not the best policy. A bias in the weights or in the gradient of the KL term moves it.",
            names=("yours", "the best policy"),
        )


def gap(module: LearnerModule) -> Table:
    """The tokens of a coarser copy whose probabilities differ most from the trained model's, with your weights."""
    arrays = {name: coarse(array) for name, array in POCKET.arrays.items()}
    ids_P = encode(PROMPT)
    server, trainer = gpt(weights=replace(POCKET, arrays=arrays)), gpt()
    keys = jax.random.split(jax.random.key(0), ROWS)
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=WRITTEN)
    written = generate_batch(server, np.repeat(ids_P[None], ROWS, axis=0), sampling, END, keys)
    ids_BT = np.full((ROWS, len(ids_P) + WRITTEN), END, np.int32)
    sampled_BT = np.zeros((ROWS, len(ids_P) + WRITTEN - 1), bool)
    for row, tokens in enumerate(written):
        ids_BT[row, : len(ids_P) + len(tokens)] = [*ids_P, *tokens]
        sampled_BT[row, len(ids_P) - 1 : len(ids_P) + len(tokens) - 1] = True
    graph = nnx.graphdef(server)
    score = jax.jit(lambda state: target_log_probabilities(nnx.merge(graph, state), ids_BT))
    sampler_BT, old_BT = (score(nnx.state(model)) for model in (server, trainer))
    weights_BT, texts_BT = (
        np.asarray(module.sampler_weights(old_BT, sampler_BT, jnp.asarray(sampled_BT), kind, MOST))
        for kind in ("token", "sequence")
    )
    gap_BT = np.where(sampled_BT, np.asarray(old_BT - sampler_BT), 0.0)
    order = np.argsort(gap_BT, axis=None)
    rows = []
    for place in (*order[: -SHOWN - 1 : -1], *order[:SHOWN]):
        row, t = np.unravel_index(place, gap_BT.shape)
        before = "".join(token(each) for each in ids_BT[row, max(0, t - 2) : t + 1]).strip()
        odds = (f"{float(jnp.exp(each[row, t])):.1%}" for each in (sampler_BT, old_BT))
        rows.append((f"… {before}", token(ids_BT[row, t + 1]).strip(), *odds, f"{weights_BT[row, t]:.2f}"))
    true_BT = np.minimum(np.exp(gap_BT), MOST)
    texts_B, true_B = texts_BT.max(axis=1), np.minimum(np.exp(gap_BT.sum(axis=1)), MOST)
    if np.abs(np.where(sampled_BT, weights_BT - true_BT, 0.0)).max() < 1e-3 and np.abs(texts_B - true_B).max() < 1e-3:
        said = (
            f"Most of your weights are near 1. In a text, their logarithms add up: the {ROWS} texts weigh from "
            f"{texts_B.min():.2f} to {texts_B.max():.2f}."
        )
    else:
        said = "Your weights are not the trainer's probability divided by the server's, truncated."
    return Table(
        "A server with parameters of four bits has written. Here the trainer disagrees most",
        ("text so far", "token", "server", "trainer", "your weight"),
        tuple(rows),
        f"Both have the same parameters, but the server rounds them. {said}",
    )


def coarse(array: np.ndarray) -> np.ndarray:
    """An array with 15 values in each column, if it is a kernel."""
    if array.ndim < 2:
        return array
    scale = np.abs(array).max(axis=-2, keepdims=True) / LEVELS
    return np.round(array / np.where(scale > 0, scale, 1)) * scale


def learned(module: LearnerModule) -> Iterator[tuple[str, np.ndarray]]:
    """The policies of three bandits by update, (UPDATES + 1, 3): two with all of your functions, and one whose trainer
    does not know the server."""
    texts_B1 = jnp.repeat(jnp.arange(3), jnp.array(COUNTS), total_repeat_length=sum(COUNTS))[:, None]
    server_B1 = jnp.log(jnp.array(COUNTS) / sum(COUNTS))[texts_B1]
    rewards_B, sampled_B1 = jnp.array(REWARDS)[texts_B1[:, 0]], jnp.ones(texts_B1.shape, bool)

    def log_p(scores: jax.Array) -> jax.Array:
        return jax.nn.log_softmax(scores)[texts_B1]

    base_B1 = log_p(jnp.zeros(3))

    def curves(in_rewards: bool) -> np.ndarray:
        """With the server's log-probabilities, and with those of the trainer in their place."""

        def update(scores: jax.Array, knows: jax.Array) -> Any:
            old_B1, paid_B = log_p(scores), rewards_B
            if in_rewards:
                paid_B = module.penalized_rewards(rewards_B, old_B1, base_B1, sampled_B1, KL_WEIGHT)
            sampler_B1 = jnp.where(knows, server_B1, old_B1)

            def loss(scores: jax.Array) -> Any:
                known = (log_p(scores),) * 2  # the first update on these samples: old is new
                gain = module.policy_loss(
                    *known, sampler_B1, sampled_B1, paid_B - paid_B.mean(), "token", LOW, HIGH, LARGE
                )
                if in_rewards:
                    return gain
                return gain + KL_WEIGHT * module.kl_loss(*known, sampler_B1, base_B1, sampled_B1, LARGE)

            scores = scores - RATE * jax.grad(loss)(scores)
            return scores, jax.nn.softmax(scores)

        def run(knows: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda scores, _: update(scores, knows), jnp.zeros(3), length=UPDATES)[1]

        return np.concatenate([np.full((2, 1, 3), 1 / 3), jax.vmap(run)(jnp.array([True, False]))], axis=1)

    knowing, ignoring = curves(in_rewards=False)
    yield "KL in the loss", knowing
    yield "KL in the rewards", curves(in_rewards=True)[0]
    yield "without knowing the server", ignoring
