"""Problem 57, played: the trained model, measured by the learner's functions."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Story, Table, Token
from harness.data.tokenizer import token_bytes
from problems.stage.model import gpt, jitted
from problems.stage.weights import TOKENIZER, encode, held_out, token

CONTEXT, STORY = 48, 7
STRIDES = (4, 8, 16, 24, 32, 48)
QUESTIONS = (
    ("Lily was very thirsty. She wanted to drink some", ("water", "sand", "juice from the fridge")),
    ("Tom lost his red ball, so he felt very", ("sad", "green", "happy and proud")),
    ("At night it was dark, and the little boy was", ("scared", "a fish", "tired and went to bed")),
)


@functools.cache
def trained() -> Callable[[Any], jax.Array]:
    """The trained model as a function of up to CONTEXT ids. It is compiled once: shorter windows are filled up
    behind."""
    run = jitted(gpt())

    def model(ids: Any) -> jax.Array:
        window = jnp.zeros(CONTEXT, jnp.int32).at[: len(ids)].set(jnp.asarray(ids, jnp.int32))
        return run(window)[: len(ids)]

    return model


def play(module: LearnerModule) -> Exhibits:
    """A story token by token, the same story with other strides, and questions with three answers."""
    ids_N, lengths_V = held_out(STORY)[-1], jnp.asarray(token_bytes(TOKENIZER), jnp.int32)
    log_probs = np.asarray(module.score_text(trained(), jnp.asarray(ids_N), CONTEXT, CONTEXT // 2))
    surprises = [None, *(-log_probs / np.log(2)).tolist()][: len(ids_N)]
    scored = f"{len(log_probs)} of its {len(ids_N)} tokens are scored" + (
        "; the first has nothing before it."
        if len(log_probs) == len(ids_N) - 1
        else f", where it should be {len(ids_N) - 1}: all but the first."
    )
    yield Story(
        f"How much each token surprises the model, with a context of {CONTEXT}",
        tuple(Token(token(each), bits) for each, bits in zip(ids_N, surprises, strict=False)),
        f"{scored} Perplexity {float(module.perplexity(log_probs)):.2f}, bits per byte "
        f"{float(module.bits_per_byte(jnp.asarray(log_probs), jnp.asarray(ids_N), lengths_V)):.3f}.",
        meaning="bits of surprise",
    )
    bits = []
    for stride in STRIDES:
        found = module.score_text(trained(), jnp.asarray(ids_N), CONTEXT, stride)
        bits.append(float(module.bits_per_byte(found, jnp.asarray(ids_N), lengths_V)))
    yield Lines(
        "The same model and the same story, with other strides",
        (Line("yours", STRIDES, bits),),
        f"From {bits[0]:.3f} bits per byte to {bits[-1]:.3f}. "
        + (
            "The less windows overlap, the more tokens are predicted from little context, and the model looks worse. "
            "So a report must name context and stride."
            if bits[-1] > bits[0]
            else "Windows that overlap less predict more tokens from little context, so the model should look worse to "
            "the right."
        ),
        x="stride",
        y="bits per byte",
    )
    rows: list[tuple[str, ...]] = []
    all_scores: list[float] = []
    for prompt, options in QUESTIONS:
        texts = [f" {option}." for option in options]
        scores = module.score_options(
            trained(), jnp.asarray(encode(prompt)), [jnp.asarray(encode(each)) for each in texts], CONTEXT
        )
        counts = jnp.array([len(each.encode()) for each in texts])
        chosen = [options[int(number)] for number in module.choose_option(scores, counts)]
        listed = ", ".join(f"{option}: {float(score):.1f}" for option, score in zip(options, scores, strict=True))
        rows.append((*chosen, f"{prompt} ... {listed}"))
        all_scores += map(float, scores)
    yield Table(
        "Questions for a model that only continues texts",
        ("by sum", "by byte", "the question, and the log-probability of each answer"),
        tuple(rows),
        "By sum, short answers have the advantage: each further token makes the probability smaller. By byte, long "
        "ones can win."
        if max(all_scores) < 0
        else "A log-probability is never above 0, but some of these are.",
    )
