"""Problem 62, played: the learner's autoencoder takes the trained model's activations apart, and its features get
examples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.authoring import BadOutputError
from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress, Story, Table, Token
from problems.stage.model import stream
from problems.stage.weights import POCKET, held_out, token

TRAINS = True
LAYER, T, STORIES, FEATURES, K = 2, 112, 56, 384, 6
STEPS, BATCH, RATE, PATIENCE, EVERY = 420, 512, 3e-3, 12_000, 30
SHOWN, PLACES, WORDS, LAST = 10, 4, 4, 2  # features of the table, places and words of each, tokens of a place
D = POCKET.d_model


def play(module: LearnerModule) -> Exhibits:
    """Training, with the dead features over time, then what some features find and say."""
    ids_NT = np.stack([ids[:T] for ids in held_out(STORIES)])
    x_ND = np.asarray(jax.vmap(lambda ids: stream(ids, LAYER))(ids_NT)).reshape(-1, D)
    x_ND = x_ND / np.sqrt(np.mean((x_ND - x_ND.mean(axis=0)) ** 2))
    rng = np.random.default_rng(0)
    decoder = module.unit_rows(jnp.asarray(rng.standard_normal((FEATURES, D)), jnp.float32))
    weights = {"encoder": decoder.T, "decoder": decoder, "bias": jnp.asarray(x_ND.mean(axis=0))}
    tx = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    @jax.jit
    def step(weights: Any, moments: Any, idle: jax.Array, x_ND: jax.Array) -> Any:
        def loss(weights: Any) -> Any:
            out_ND, codes_NF = module.autoencode(x_ND, weights["encoder"], weights["decoder"], weights["bias"], K)
            return jnp.mean((x_ND - out_ND) ** 2), (out_ND, codes_NF)

        (value, (out_ND, codes_NF)), slopes = jax.value_and_grad(loss, has_aux=True)(weights)
        slopes["decoder"] = module.project_gradient(weights["decoder"], slopes["decoder"])
        updates, moments = tx.update(slopes, moments, weights)
        weights = optax.apply_updates(weights, updates)
        weights["decoder"] = module.unit_rows(weights["decoder"])
        return weights, moments, module.idle_tokens(idle, codes_NF), value, x_ND - out_ND

    moments, idle, missed, dead = tx.init(weights), jnp.zeros(FEATURES, jnp.int32), [], []
    for number in range(STEPS):
        rows = x_ND[rng.integers(0, len(x_ND), BATCH)]
        weights, moments, idle, value, errors = step(weights, moments, idle, rows)
        missed.append(float(value))
        if number % EVERY == EVERY - 1:
            dead.append(int((np.asarray(idle) >= PATIENCE // 4).sum()))
            if number < STEPS * 3 // 4:
                weights["encoder"], weights["decoder"], idle = module.revive(
                    weights["encoder"], weights["decoder"], idle, errors, PATIENCE // 4
                )
        yield Progress(number + 1, STEPS, missed[-1])
    yield Lines(
        f"What {K} of {FEATURES} features miss of an activation",
        (Line("share of the variance", np.arange(10, STEPS + 1, 10), np.reshape(missed, (-1, 10)).mean(axis=1)),),
        _rebuilt(float(np.mean(missed[-10:])), np.linalg.norm(weights["decoder"], axis=1)),
        y="share missed",
    )
    yield Lines(
        "Features that were idle for 3,000 tokens",
        (Line("idle features", np.arange(EVERY, STEPS + 1, EVERY), dead),),
        f"Until step {STEPS * 3 // 4}, your `revive` changes them every {EVERY} steps. {dead[-1]} of {FEATURES} are "
        "idle at the end."
        + (
            " They began again in the directions of tokens that are rebuilt badly."
            if dead[-1] < FEATURES // 10
            else " A right one leaves fewer than a tenth of them idle."
        ),
        y="features",
    )
    _, codes_NF = module.autoencode(x_ND, weights["encoder"], weights["decoder"], weights["bias"], K)
    codes_NF = np.asarray(codes_NF)
    if codes_NF.shape != (len(x_ND), FEATURES):
        raise BadOutputError(
            f"`autoencode` returned codes of the shape {codes_NF.shape}; they must be {(len(x_ND), FEATURES)}"
        )
    yield from _features(codes_NF, np.asarray(weights["decoder"]), ids_NT)


def _rebuilt(missed: float, lengths: np.ndarray) -> str:
    """How well the activations are rebuilt, or what is wrong with the rows of the decoder."""
    if np.abs(lengths - 1).max() > 1e-3:
        return f"The rows of your decoder have lengths from {lengths.min():.2f} to {lengths.max():.2f}. They must be 1."
    if not missed < 0.35:
        return f"At the end, {missed:.0%} is still missed. With a right autoencoder it is less than a quarter."
    return (
        f"Activations after {LAYER} blocks of the trained model. At the end, {K} features rebuild {1 - missed:.0%} of "
        "what differs between tokens."
    )


def _features(codes_NF: np.ndarray, decoder_FD: np.ndarray, ids_NT: np.ndarray) -> Exhibits:
    """A table of the features that are strongest on few kinds of tokens, and the strongest of them in a story."""
    ids = ids_NT.ravel()
    used = (codes_NF > 0).sum(axis=0)
    strength = np.sort(codes_NF, axis=0)[-20:].mean(axis=0) * ((used > 30) & (used < len(ids) // 12))
    says_FV = (decoder_FD * POCKET.arrays["ln_f.scale"]) @ POCKET.arrays["embed.embedding"].T
    rows: list[tuple[str, ...]] = []
    chosen: list[set[str]] = []
    for feature in np.argsort(-strength):
        best = np.argsort(-codes_NF[:, feature])
        places = [n for n in best[:60] if n % T >= LAST]
        seen = list(
            dict.fromkeys(
                "".join(token(ids[i]) for i in range(n - LAST + 1, n + 1)).strip().replace("\n", "⏎") for n in places
            )
        )
        words = {token(ids[n]) for n in places[:12]}
        if len(seen) < PLACES or any(words & other for other in chosen):
            continue  # as another one
        chosen.append(words)
        says = " ".join(token(each).strip() or "␣" for each in np.argsort(-says_FV[feature])[:WORDS])
        rows.append((str(feature), f"{used[feature] / len(ids):.1%}", says, " │ ".join(seen[:PLACES])))
        if len(rows) == SHOWN:
            break
    yield Table(
        "Some features: where they are strongest, and which words they speak for",
        ("feature", "on", "speaks for", "where it is strongest: four times the last two tokens"),
        tuple(rows),
        "Nobody named them. Read a row and guess what the feature stands for.",
    )
    if rows:
        feature = int(rows[0][0])
        story = int(codes_NF[:, feature].reshape(-1, T).sum(axis=1).argmax())
        values = codes_NF[:, feature].reshape(-1, T)[story]
        largest = ", ".join(
            f"“{token(ids_NT[story][n]).strip()}” {values[n]:.2f}" for n in np.argsort(-values)[:3] if values[n]
        )
        yield Story(
            f"Feature {feature} in a story",
            tuple(Token(token(each), float(value)) for each, value in zip(ids_NT[story], values, strict=True)),
            f"A token is shaded by the code of this one feature. It is above 0 at {int((values > 0).sum())} of {T} "
            f"tokens. Largest: {largest}.",
            meaning="code",
            strongest=float(max(values.max(), 1e-3)),
        )
