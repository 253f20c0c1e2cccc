"""Problem 70, played: a part of the trained model learns from the whole of it, by the learner's losses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Progress
from problems.stage import telling
from problems.stage.model import gpt, jitted
from problems.stage.tuning import Tuner
from problems.stage.weights import encode, held_out, token

TRAINS = True
PROMPT = "Once there was a gentle girl. Her name was Clara. She had a friend named Fred, who was a"
TEMPERATURES, SHOWN = (0.5, 1.0, 2.0, 4.0), 6
LAYERS, T, BATCH, STEPS, GAP, LEARNING_RATE, TEMPERATURE = 1, 64, 4, 40, 4, 2e-3, 2.0


def play(module: LearnerModule) -> Exhibits:
    """What a teacher knows at several temperatures, two students that learn from it and from the text, and a story."""
    teacher = jitted(gpt())
    logits_V = teacher(encode(PROMPT))[-1:]
    kept = [module.top_k_targets(logits_V, SHOWN, temperature) for temperature in TEMPERATURES]
    odds = np.array([np.exp(log_p[0]) for _, log_p in kept])
    yield HeatMap(
        "What the trained model expects after “… a friend named Fred, who was a”, as your `top_k_targets` stores it",
        tuple(f"temperature {temperature:g}" for temperature in TEMPERATURES),
        tuple(token(each) for each in kept[0][0][0]),
        (Plane(odds.tolist()),),
        f"A text says one word. The teacher says how likely each is. With {SHOWN} tokens, you store "
        f"{odds[1].sum():.0%} of its probability at temperature 1, and {odds[-1].sum():.0%} at 4: the rest belongs to "
        "the other tokens."
        if (odds.sum(axis=1) < 0.9999).any()
        else "The stored probabilities sum to 1, as if no other token were possible.",
        "probability",
    )

    rows_NT = np.stack([ids[:T] for ids in held_out(BATCH * (STEPS + 1))])
    held, is_target = rows_NT[:BATCH], jnp.arange(T) > 0
    curves = {}
    told: Any = None
    for number, (name, soft_weight) in enumerate({"the teacher": 1.0, "the text only": 0.0}.items()):
        student = Tuner(gpt(LAYERS), lambda model, ids_BT: model(ids_BT), LEARNING_RATE)
        far = [distance(student.read(held), teacher(held))]
        for step in range(1, STEPS + 1):
            ids_BT = rows_NT[step * BATCH : (step + 1) * BATCH]
            known = list(zip(teacher(ids_BT), jnp.asarray(ids_BT), strict=True))

            def loss(logits_BTV: Any, known: Any = known, soft_weight: float = soft_weight) -> jax.Array:
                each = [
                    module.token_loss(logits_TV, *row, is_target, TEMPERATURE, soft_weight)
                    for logits_TV, row in zip(logits_BTV, known, strict=True)
                ]
                return sum(each) / BATCH

            yield Progress(number * STEPS + step, 2 * STEPS, student.step(ids_BT, loss))
            if step % GAP == 0:
                far.append(distance(student.read(held), teacher(held)))
        curves[name], told = far, told or telling.tell(student.model, 60)
    steps = tuple(range(0, STEPS + 1, GAP))
    soft, hard = (far[-1] for far in curves.values())
    if not np.isfinite(soft + hard):
        yield Lines(
            "Two students", tuple(Line(f"learns from {name}", steps, far) for name, far in curves.items()),
            "By your loss, a student's numbers are no longer finite.", y="divergence from the teacher, nats",
        )  # fmt: skip
        return
    yield Lines(
        f"Two students with {LAYERS} of the teacher's 3 layers learn from the same {BATCH * STEPS} stories",
        tuple(Line(f"learns from {name}", steps, far) for name, far in curves.items()),
        f"After {STEPS} steps, the student of the teacher is {soft:.2f} nats a token from it, the student of the text "
        f"{hard:.2f}."
        + (
            " Every token of the teacher is a whole distribution."
            if soft < hard
            else " By your loss, it learns no more than from the text."
        ),
        y="divergence from the teacher, nats",
    )
    yield telling.story(
        told,
        f"A story by {LAYERS} layer that learned from 3",
        f"Its teacher is surprised by {telling.surprise_of(gpt(), told.ids, told.given):.1f} bits a token: the student "
        "has a third of its layers, and took a few seconds to learn.",
    )


def distance(student_BTV: jax.Array, teacher_BTV: jax.Array) -> float:
    """The mean divergence of a student from its teacher at temperature 1, in nats a token."""
    log_q, log_p = (
        x - np.logaddexp.reduce(x, axis=-1, keepdims=True) for x in map(np.asarray, (student_BTV, teacher_BTV))
    )
    return float(np.mean(np.sum(np.exp(log_p) * (log_p - log_q), axis=-1)))
