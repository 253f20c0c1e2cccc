"""Problem 35, played: when the learner's step is traced again, what it learns, and what the gradient of an input
shows."""

import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Story, Token
from problems.stage.weights import POCKET, TOKENIZER, held_out, token

ROWS, BATCH, STEPS, MEMBERS, SHOWN = 96, 32, 60, 4, 8
TABLE_VD = POCKET.arrays["embed.embedding"]


class Judge(nnx.Module):
    """Scores whether a story is about a girl, from the mean vector of its tokens. Counts how often Python runs it."""

    traces = 0

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(POCKET.d_model, 1, kernel_init=nnx.initializers.normal(0.3), rngs=rngs)
        self.calls, self.mean = nnx.Variable(jnp.zeros(())), nnx.BatchStat(jnp.zeros(POCKET.d_model))

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        Judge.traces += 1
        self.calls[...] += 1
        self.mean[...] = 0.9 * self.mean[...] + 0.1 * x_BD.mean(axis=0)
        return self.linear(x_BD)[:, 0]


def play(module: LearnerModule) -> Exhibits:
    """Traces and time of each call of the step; the loss; which tokens of a story the score depends on; four models at
    once."""
    stories = held_out(ROWS)
    x_ND = jnp.stack([TABLE_VD[ids].mean(axis=0) * 8 for ids in stories])
    x_ND -= x_ND.mean(axis=0)
    y_N = jnp.array([2.0 * (" She " in TOKENIZER.decode(ids.tolist())) - 1 for ids in stories])
    model = Judge(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
    bars, traced, losses, Judge.traces = [], [], [], 0
    for step in range(STEPS):
        size = BATCH // 2 if step == 4 else BATCH
        rows = np.arange(step * BATCH, step * BATCH + size) % ROWS
        before, start = Judge.traces, time.perf_counter()
        losses.append(float(module.train_step(model, optimizer, x_ND[rows], y_N[rows])))
        if step < 7:
            traced.append(Judge.traces > before)
            label = f"call {step + 1}, {size} stories{', traced' * traced[-1]}"
            bars.append(Bar(label, 1000 * (time.perf_counter() - start)))
    yield Bars(
        "How long each call of your step takes",
        tuple(bars),
        "milliseconds",
        f"A call with new shapes is traced and compiled, which takes {bars[0].value / bars[-1].value:.0f} times as "
        "long. All others run the compiled program, and Python does not see the model."
        if not traced[-1]
        else "Python runs the model in every call: nothing keeps the compiled program, so each step is slow.",
        timed=True,
    )
    yield Lines(
        "Is the story about a girl? The loss of your step", (Line("loss", np.arange(STEPS), losses),),
        counted(float(model.calls[...]), losses, traced[-1]),
    )  # fmt: skip
    slope_BD = np.asarray(module.input_gradient(model, x_ND[:1]))
    ids = stories[0][:60]
    pushes = {token(each): float(TABLE_VD[each] @ slope_BD[0]) for each in ids}
    highest = [each for each in sorted(pushes, key=pushes.__getitem__, reverse=True) if pushes[each] > 0][:4]
    yield Story(
        "Which words make it a girl's story, by your gradient of the input",
        tuple(Token(token(each), max(pushes[token(each)], 0.0)) for each in ids),
        "The gradient of the score by the input says which change of the input would raise it. "
        + (
            f"Here it is more of {', '.join(f'“{each.strip()}”' for each in highest)}. Names tell less, because there "
            "are many."
            if highest
            else "By yours, no word of this story would."
        ),
        meaning="push toward “girl”",
        strongest=float(max(np.abs(TABLE_VD[stories[0]] @ slope_BD[0]).max(), 1e-6)),
    )
    members = nnx.vmap(lambda key: Judge(nnx.Rngs(params=key)))(jax.random.split(jax.random.key(1), MEMBERS))
    scores_EB = np.asarray(module.member_outputs(members, x_ND[:SHOWN]))
    yield HeatMap(
        f"How {MEMBERS} models with random weights score {SHOWN} stories, all in one call of your function",
        tuple(f"model {number + 1}" for number in range(len(scores_EB))),
        tuple(f"story {number + 1}" for number in range(SHOWN)),
        (Plane(scores_EB, "", [[f"{score:+.1f}" for score in row] for row in scores_EB]),),
        "Each row is another model. None of them was looped over: their weights are one array with one more axis.",
        "score",
        low=-(most := float(max(np.abs(np.nan_to_num(scores_EB)).max(), 1e-6))),
        high=most,
    )


def counted(calls: float, losses: Sequence[float], traced: bool) -> str:
    """What the steps have left in the model, in a sentence."""
    if calls == 0:
        return (
            f"The model counted no call in {STEPS} steps, and the loss went from {losses[0]:.2f} to {losses[-1]:.2f}: "
            "what your step changes does not come back to the model."
        )
    last = "Python ran it at each." if traced else "Python ran it only when it was traced."
    return f"The model counted {calls:g} calls in {STEPS} steps. {last}"
