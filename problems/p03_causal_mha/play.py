"""Problem 03, played: what each head of the trained model looks for and adds, by the learner's module."""

from dataclasses import replace

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Table
from problems.stage import attention, model, telling
from problems.stage.weights import POCKET, Weights, held_out, token

TEXT = "Lily had a red ball. Tom wanted the ball. He took it"
LAYER = 2
OPENING = "Every day, a boy named Ben"
NEAR = 0.01  # a share of the surprise


def play(module: LearnerModule, text: str) -> Exhibits:
    """The weights of each head of the last layer, what each looks for, what is lost without it, and a story."""
    make = module.construct("CausalMHA", d_model=POCKET.d_model, num_heads=POCKET.num_heads)
    ids_T = attention.few(text)
    weights_HTT = attention.by_module(make, ids_T, LAYER, "CausalMHA")
    yield attention.exhibit(weights_HTT, ids_T, LAYER, f"Where the heads of layer {LAYER + 1} look, by your module")
    yield looked_for(weights_HTT, [token(each).strip() for each in ids_T])

    (story_T,) = held_out(1)
    block = model.with_attention(make)
    models = [model.gpt(weights=each, make_block=block) for each in (POCKET, *map(without, range(POCKET.num_heads)))]
    mine, *silenced = telling.surprises_of(models, story_T)
    own = telling.surprise_of(model.gpt(), story_T)
    most = int(np.argmax(silenced))
    yield Bars(
        "How much a new story surprises the model when one head of each layer is silent",
        (
            Bar("all heads", mine, own),
            *(Bar(f"without head {head}", bits) for head, bits in enumerate(silenced, 1)),
        ),
        "bits a token",
        f"With all heads, {mine:.2f} bits; without head {most + 1}, {silenced[most]:.2f}. One head has one set of "
        "weights for each token, so it can look up one thing at a time. Several heads look up several."
        if abs(mine - own) < NEAR * own
        else f"With all heads, your module has {mine:.2f} bits, where it should have {own:.2f}: its heads do not give "
        "what the weights were trained with.",
    )
    told = telling.tell(models[0], tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your attention in every layer",
        telling.judged(told, "Your heads work together as those of the trained model do.", model.gpt()),
    )


def looked_for(weights_HTT: np.ndarray, words: list[str]) -> Table:
    """Where the weight of each head goes, on average over the tokens after the first, and its longest look."""
    T = len(words)
    rows = np.arange(1, T)
    cells = []
    for head, weights_TT in enumerate(weights_HTT, 1):
        itself, before = weights_TT[rows, rows], weights_TT[rows, rows - 1]
        far_TT = np.tril(weights_TT, -2)
        t, s = np.unravel_index(far_TT.argmax(), far_TT.shape)
        look = f"{words[t]} → {words[s]} {far_TT[t, s]:.0%}" if T > 2 else ""
        cells.append((f"{head}", share(itself), share(before), share(far_TT[rows].sum(axis=-1)), look))
    return Table(
        "What each head looks for",
        ("head", "itself", "the token before", "further back", "its largest weight further back"),
        tuple(cells),
        "Shares of a token's weight, on average. The heads read the same vectors, each through projections of its own.",
    )


def share(weights: np.ndarray) -> str:
    """The mean of some weights."""
    return f"{weights.mean():.0%}" if len(weights) else ""


def without(head: int) -> Weights:
    """The trained weights, in which nothing of one head of each layer reaches the output."""
    arrays = dict(POCKET.arrays)
    K = POCKET.d_model // POCKET.num_heads
    for layer in range(POCKET.num_layers):
        name = f"blocks.{layer}.attn.out_proj.kernel"
        kernel_DD = arrays[name].copy()
        kernel_DD[head * K : (head + 1) * K] = 0
        arrays[name] = kernel_DD
    return replace(POCKET, arrays=arrays)
