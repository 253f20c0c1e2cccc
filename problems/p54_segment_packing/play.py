"""Problem 54, played: stories that share a row, read by the trained model with the learner's functions."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Plane, Story, Token
from problems.stage.model import attending, gpt, jitted
from problems.stage.weights import END, POCKET, held_out, token

BLOCK, STORIES, SENTENCES, CONTEXT = 32, 24, 5, POCKET.max_T
KINDS = ("padding", "story 1, 3, 5, ...", "story 2, 4, 6, ...")
SIDE = 48  # rows and columns of the map


def play(module: LearnerModule) -> Exhibits:
    """A row of stories, its mask, and what the model knows of each story in it."""
    stories = [beginning(ids, 1 + number % SENTENCES) for number, ids in enumerate(held_out(STORIES))]
    token_ids, segment_ids = (np.asarray(each) for each in module.pack_stories(stories, CONTEXT, END))
    number = int(np.argmax(segment_ids.max(axis=1)))  # the row with the most stories
    ids_T, segments_T = token_ids[number], jnp.asarray(segment_ids[number])
    empty = float((segment_ids == 0).mean())
    kinds = np.where(segment_ids[number] == 0, 0, 2 - segment_ids[number] % 2).tolist()
    yield Story(
        f"{STORIES} short stories in {len(token_ids)} rows by your function; this is row {number}",
        tuple(Token(token(each), kind=kind) for each, kind in zip(ids_T, kinds, strict=True)),
        f"{empty:.0%} of all rows is padding. With one story in each row, it would be "
        f"{1 - sum(map(len, stories)) / (STORIES * CONTEXT):.0%}.",
        kinds=KINDS,
    )
    mask_TT = np.asarray(module.segment_mask(segments_T), float)
    shares = mask_TT.reshape(SIDE, CONTEXT // SIDE, SIDE, CONTEXT // SIDE).mean(axis=(1, 3))
    places = tuple(str(i * CONTEXT // SIDE) for i in range(SIDE))
    yield HeatMap(
        "Your mask of this row",
        places,
        places,
        (Plane(tuple(map(tuple, shares.tolist()))),),
        f"{mask_TT.mean():.0%} of all scores count, in one triangle for each story. A causal mask has "
        f"{(CONTEXT + 1) / 2 / CONTEXT:.0%}.",
        meaning="share of keys that are seen",
    )

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return module.segment_attention(q, k, v, segments_T, BLOCK)

    positions_T = np.asarray(module.segment_positions(segments_T))
    table = POCKET.arrays["pos_embed"][np.clip(positions_T, 0, CONTEXT - 1)]
    weights = replace(POCKET, arrays={**POCKET.arrays, "pos_embed": table})
    targets_T = np.asarray(module.segment_targets(jnp.asarray(ids_T), segments_T))
    packed_T = surprises(jitted(gpt(weights=weights, make_block=attending(attend)))(jnp.asarray(ids_T)), targets_T)
    alone = jitted(gpt())
    bars = []
    for segment in range(1, int(segments_T.max()) + 1):
        own = np.asarray(segments_T) == segment
        window_T = np.zeros(CONTEXT, np.int32)
        window_T[: own.sum()] = ids_T[own]
        following_T = np.append(window_T[1:], 0)
        following_T[max(own.sum() - 1, 0) :] = -1
        told = surprises(alone(jnp.asarray(window_T)), following_T)
        counted = own & (targets_T >= 0)
        bars.append(
            Bar(
                f"story {segment}",
                float(packed_T[counted].mean()) if counted.any() else 0.0,
                float(told[following_T >= 0].mean()),
            )
        )
    worst = max(bar.apart for bar in bars)
    yield Bars(
        "The surprise of the trained model at each story of the row",
        tuple(bars[:24]),
        "bits per token",
        "Each story is read as if it were alone: its neighbors change nothing."
        if worst < 1e-3
        else f"A story differs by {worst:.2f} bits from what the model says of it alone: its neighbors are in the way.",
        names=("in the row, by your functions", "alone"),
    )


def beginning(ids: np.ndarray, sentences: int) -> np.ndarray:
    """The first sentences of a story, with end-of-text."""
    ends = [place + 1 for place, each in enumerate(ids.tolist()) if token(each) == "."]
    return np.append(ids[: ends[min(sentences, len(ends)) - 1]], END).astype(np.int32)


def surprises(logits_TV: jax.Array, targets_T: np.ndarray) -> np.ndarray:
    """The surprise at each target, in bits, (T,)."""
    log_p_TV = np.asarray(jax.nn.log_softmax(logits_TV))
    return -np.take_along_axis(log_p_TV, np.maximum(targets_T, 0)[:, None], axis=1)[:, 0] / np.log(2)
