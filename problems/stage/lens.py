"""What the model would say if it ended after each block: the logit lens (nostalgebraist 2020)."""

from typing import Any

import jax
import numpy as np

from grader.exhibits import HeatMap, Plane
from problems.stage.model import gpt, jitted
from problems.stage.weights import POCKET, encode, token

COLUMNS = 6  # of the last tokens of a text
TEXT = "Once upon a time, there was a kind boy named Tim. Tim lived near the"


def lens(title: str, caption: str, text: str = TEXT, **parts: Any) -> HeatMap:
    """The likeliest next token at the last places of a text, after the embedding and after each block. `parts` are
    those of `model.gpt`. The caption also says where the last guesses are not those of the trained model."""
    ids_T = encode(text)
    shares, words = [], []
    for layers in range(POCKET.num_layers + 1):
        logits_TV = jitted(gpt(layers, **parts))(ids_T)[-COLUMNS:]
        odds_TV = np.asarray(jax.nn.softmax(logits_TV, axis=-1))
        best_T = odds_TV.argmax(-1)
        shares.append([float(odds[best]) for odds, best in zip(odds_TV, best_T, strict=True)])
        words.append(tuple(token(best) for best in best_T))
    own = [token(best) for best in jitted(gpt())(ids_T)[-COLUMNS:].argmax(-1)]
    if wrong := [(mine, theirs) for mine, theirs in zip(words[-1], own, strict=True) if mine != theirs]:
        mine, theirs = wrong[-1]
        caption += (
            f" But of the {COLUMNS} last guesses, {len(wrong)} differ{'s' * (len(wrong) == 1)} from those of the "
            f"trained model: yours says “{mine.strip()}” where it says “{theirs.strip()}”."
        )
    rows = ("embedding", *(f"block {number}" for number in range(1, POCKET.num_layers + 1)))
    columns = tuple(token(each) for each in ids_T[-COLUMNS:])
    return HeatMap(title, rows, columns, (Plane(shares, "", tuple(words)),), caption, "probability")
