"""Problem 50, played: the trained model learns what is preferred, by the learner's DPO loss."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Progress
from problems.stage import telling
from problems.stage.model import gpt, jitted
from problems.stage.tuning import Tuner
from problems.stage.weights import END, TOKENIZER, encode, held_out

TRAINS = True
CHOSEN = " beach"
PROMPT = "Once upon a time, there was a kind boy named Tom. Tom liked to play at the"
PLACES = (CHOSEN, " park", " garden", " farm", " hill", " market")
T, BATCH, HELD, STEPS, GAP, BETA, LEARNING_RATE = 44, 4, 4, 30, 3, 0.1, 7e-5


def play(module: LearnerModule) -> Exhibits:
    """How much likelier the chosen and the rejected answers become over a minute, then a word and a story before and
    after."""
    ids_N2T, answer_N2T = pairs()

    def read(model: nnx.Module, ids_B2T: Any) -> jax.Array:
        return model(ids_B2T.reshape(-1, T)).reshape(*ids_B2T.shape, -1)

    tuner, frozen = Tuner(gpt(), read, LEARNING_RATE), Tuner(gpt(), read, 0)
    held, rng = slice(0, HELD), np.random.default_rng(0)

    def log_p(model: Tuner) -> np.ndarray:
        """Of the chosen and of the rejected answers that are not trained on, (2,)."""
        rows = zip(
            *(x.reshape(-1, *x.shape[2:]) for x in (model.read(ids_N2T[held]), ids_N2T[held], answer_N2T[held])),
            strict=True,
        )
        return np.mean(
            np.reshape([float(module.answer_log_probability(*map(jnp.asarray, row))) for row in rows], (-1, 2)), axis=0
        )

    before, moved = log_p(frozen), [np.zeros(2)]
    for step in range(1, STEPS + 1):
        some = HELD + rng.choice(len(ids_N2T) - HELD, BATCH, replace=False)
        known = [jnp.asarray(x) for x in (frozen.read(ids_N2T[some]), ids_N2T[some], answer_N2T[some])]

        def loss(logits_B2TV: jax.Array, known: Any = known) -> jax.Array:
            return sum(module.dpo_loss(*pair, BETA) for pair in zip(logits_B2TV, *known, strict=True)) / BATCH

        yield Progress(step, STEPS, tuner.step(ids_N2T[some], loss))
        if step % GAP == 0:
            moved.append(log_p(tuner) - before)
    steps = tuple(range(0, STEPS + 1, GAP))
    chosen, rejected = np.transpose(moved)
    margin = chosen[-1] - rejected[-1]
    learned = margin > 1
    yield Lines(
        f"Answers that your loss has not seen: “{CHOSEN.strip()} all day” against the same in another place",
        (Line("chosen", steps, chosen), Line("rejected", steps, rejected)),
        f"The margin between them is {margin:+.1f} nats after {STEPS} steps. The loss asks for nothing but a margin: "
        f"the chosen answers have gained {chosen[-1]:+.1f} nats, the rejected ones {rejected[-1]:+.1f}."
        if learned
        else f"The margin between them is {margin:+.1f} nats after {STEPS} steps: your loss does not tell the "
        f"model which is preferred.",
        y="nats more than before",
    )
    odds = [jax.nn.softmax(jitted(model)(encode(PROMPT))[-1]) for model in (tuner.model, gpt())]
    yield Bars(
        "The word after “… Tom liked to play at the”",
        tuple(Bar(place.strip(), *(of[int(encode(place)[0])] for of in odds)) for place in PLACES),
        "probability",
        "It was shown nothing but pairs, an answer that is preferred and one that is not. "
        + (
            "It has learned from them what to say."
            if odds[0][int(encode(CHOSEN)[0])] > odds[1][int(encode(CHOSEN)[0])]
            else f"They were to make “{CHOSEN.strip()}” likelier, and your loss did not."
        ),
        names=("after", "before"),
    )
    yield telling.story(telling.tell(tuner.model, 60), f"A story by the model after {STEPS} steps")


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Beginnings of held-out stories with chosen and rejected answers: the ids, and where the answers are, (N, 2,
    T)."""
    rows = []
    for story in held_out(200):
        found = re.match(r"(.* liked to play at the)( \w+)( all day\.)", TOKENIZER.decode(story.tolist()), re.DOTALL)
        if found and found[2] != CHOSEN and len(encode(found[0])) < T:
            prompt, place, rest = found.groups()
            rows.append([(prompt, answer + rest) for answer in (CHOSEN, place)])
    ids_N2T = np.full((len(rows), 2, T), END, np.int32)
    answer_N2T = np.zeros(ids_N2T.shape, bool)
    for n, pair in enumerate(rows):
        for row, (prompt, answer) in enumerate(pair):
            ids, given = encode(prompt + answer), len(encode(prompt))
            ids_N2T[n, row, : len(ids)] = ids
            answer_N2T[n, row, given : len(ids)] = True
    return ids_N2T, answer_N2T
