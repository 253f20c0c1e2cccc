"""Problem 61, played: the learner's hand-written heads, and the same model that learns such heads from repeated
words."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.authoring import BadOutputError
from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Progress

TRAINS = True
WORDS = "Mia Tom Leo Sue Ben Ivy Max Zoe Sam Amy Joe Kim Dan Eva Bob Lea".split()
V, P, D, K, PERIOD = len(WORDS), 16, 40, 20, 6
STEPS, EVERY, BATCH, RATE = 320, 20, 32, 5e-3
SHAPES = {
    "embed": (V, D),
    "positions": (P, D),
    "q": (2, D, K),
    "k": (2, D, K),
    "v": (2, D, K),
    "o": (2, K, D),
    "unembed": (D, V),
}


def play(module: LearnerModule) -> Exhibits:
    """Both patterns of the hand-written weights, then training, and the patterns that it found."""
    model = jax.jit(module.attention_only)
    ids_T = jnp.array([*range(PERIOD), *range(PERIOD), 0])
    yield _patterns(
        "The heads that you wrote, on six names that come again", model, module.induction_weights(V, P), ids_T
    )

    rng = np.random.default_rng(0)
    weights = {
        name: jnp.asarray(
            rng.standard_normal(shape) * (2 if name in ("embed", "positions") else 0.5) / shape[-2] ** 0.5, "float32"
        )
        for name, shape in SHAPES.items()
    }
    tx = optax.adam(RATE)

    @jax.jit
    def step(weights: Any, moments: Any, ids_BT: jax.Array, again_BT: jax.Array) -> Any:
        def loss(weights: Any) -> tuple[jax.Array, jax.Array]:
            logits_BTV, _ = jax.vmap(lambda ids: module.attention_only(weights, ids))(ids_BT)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits_BTV[:, :-1], ids_BT[:, 1:])
            right = jnp.argmax(logits_BTV[:, :-1], axis=2) == ids_BT[:, 1:]
            return jnp.sum(losses * again_BT) / jnp.sum(again_BT), jnp.sum(right * again_BT) / jnp.sum(again_BT)

        (value, right), slopes = jax.value_and_grad(loss, has_aux=True)(weights)
        updates, moments = tx.update(slopes, moments, weights)
        return optax.apply_updates(weights, updates), moments, value, right

    moments, steps, curves = tx.init(weights), [], []
    before = float(module.compositions(weights)[1])
    for number in range(STEPS):
        weights, moments, value, right = step(weights, moments, *_rows(rng))
        if number % EVERY == 0 or number == STEPS - 1:
            previous, induction = module.head_scores(model(weights, ids_T)[1], PERIOD)
            steps.append(number + 1)
            curves.append((right, previous[0], induction[1]))
            yield Progress(number + 1, STEPS, float(value))
    found, keys = curves[-1][0], float(module.compositions(weights)[1])
    yield Lines(
        "Random weights learn to copy",
        tuple(Line(name, steps, curve) for name, curve in zip(
            ("names copied rightly", "previous-token score of layer 0", "induction score of layer "
                "1"), zip(*curves, strict=True),
            strict=True)),
        f"Nobody told this model how to copy, and at the end it copies {found:.0%} of the names that come again. Both "
        "scores rise with that, because neither head is of use without the other. Layer 1 must read through its keys "
        f"what layer 0 writes. Your composition score of the keys says how much it does: {before:.2f} at first, "
        f"{keys:.2f} at the end."
        if found > 0.9
        else f"At the end, this model copies {found:.0%} of the names that come again. With a right forward pass it "
        "learns to copy nearly all of them within 200 steps.",
        y="share",
    )  # fmt: skip
    yield _patterns("The heads that it learned", model, weights, ids_T)


def _rows(rng: np.random.Generator) -> tuple[jax.Array, jax.Array]:
    """Names in random rows that repeat after 4 to 8 of them, (B, T), and where the next name is known, (B, T - 1)."""
    periods = rng.integers(4, 9, BATCH)
    ids = np.stack([rng.permutation(V)[np.arange(P) % period] for period in periods])
    return jnp.asarray(ids, jnp.int32), jnp.asarray(np.arange(P - 1)[None] >= periods[:, None], jnp.float32)


def _patterns(title: str, model: Any, weights: Any, ids_T: jax.Array) -> HeatMap:
    """The patterns of both layers, and whether the names are copied."""
    logits_TV, patterns = model(weights, ids_T)
    T = len(ids_T)
    if np.shape(logits_TV) != (T, V) or np.shape(patterns) != (2, T, T):
        raise BadOutputError(
            f"`attention_only` returned the shapes {np.shape(logits_TV)} and {np.shape(patterns)}; they must be "
            f"{(T, V)} and {(2, T, T)}"
        )
    said = np.asarray(logits_TV.argmax(axis=1))[PERIOD:-1]
    back = float(np.diagonal(np.asarray(patterns[0]), -1).mean())
    right = int((said == np.asarray(ids_T)[PERIOD + 1 :]).sum())
    words = tuple(WORDS[each] for each in ids_T)
    return HeatMap(
        title,
        words,
        words,
        (Plane(patterns[0], "layer 0"), Plane(patterns[1], "layer 1")),
        ("Layer 0 looks one name back. " if back > 0.5 else f"Layer 0 has {back:.0%} of its attention one name back. ")
        + f"The second time, layer 1 looks at the name after the first time, and copies it: all {len(said)} names are "
        "right."
        if right == len(said)
        else f"{right} of {len(said)} names are copied rightly the second time. At {words[PERIOD]}, the second time, "
        f"layer 1 must look at {words[1]}, the name after the first {words[0]}. It looks most at "
        f"{words[int(patterns[1][PERIOD].argmax())]}.",
        "attention",
    )
