"""Problem 60, played: where the trained model keeps who a story is about, and which heads carry it."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import BadOutputError, ToyGPT
from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Plane
from problems.stage.model import gpt, jitted
from problems.stage.weights import POCKET, build, encode, token

CLEAN = "One day, a shy girl named Mia woke up."
CORRUPTED = "One day, a shy boy named Tom woke up."
ANSWER, FOIL = " Her", " His"
BLOCKS = tuple(f"block {number}" for number in range(POCKET.num_layers))
L, H = POCKET.num_layers, POCKET.num_heads


def play(module: LearnerModule) -> Exhibits:
    """The metric of both texts, then the scores of each vector and of each head."""
    model = build(lambda: ToyGPT(**POCKET.shape, context=POCKET.max_T), POCKET.arrays, "MiniGPT")
    graph, state = nnx.split(model)
    clean, corrupted = encode(CLEAN), encode(CORRUPTED)
    answer, foil = (jnp.int32(encode(word)[0]) for word in (ANSWER, FOIL))
    own = jitted(gpt())
    logits = [own(ids) for ids in (clean, corrupted)]
    bars = [
        Bar(text, module.logit_difference(rows, answer, foil), rows[-1, answer] - rows[-1, foil])
        for text, rows in zip((f"“{CLEAN[9:]}”", f"“{CORRUPTED[9:]}”"), logits, strict=True)
    ]
    right = all(bar.apart < 0.01 for bar in bars)
    yield Bars(
        f"“{ANSWER.strip()}” against “{FOIL.strip()}”: the metric",
        tuple(bars),
        "logit",
        "Above 0, the model continues with “Her”. Where in the model is the difference between the two texts?"
        if right
        else "Your metric is not the logit of “Her” minus that of “His” after the last word.",
        names=("yours", "the model"),
    )

    def scores(entry: str, columns: int) -> np.ndarray:
        grid = jax.jit(lambda state: getattr(module, entry)(nnx.merge(graph, state), clean, corrupted, answer, foil))(
            state
        )
        if np.shape(grid) != (L, columns):
            raise BadOutputError(f"`{entry}` returned the shape {np.shape(grid)}; it must be {(L, columns)}")
        return np.asarray(grid)

    T = len(clean)
    words = tuple(
        token(a) if a == b else f"{token(a)}/{token(b).strip()}" for a, b in zip(clean, corrupted, strict=True)
    )
    grid = scores("patch_stream", T)
    shown = np.flatnonzero(~(np.abs(grid) < 0.005).all(axis=0))
    yield _map(
        "What each vector of the stream restores",
        grid[:, shown],
        tuple(words[t] for t in shown),
        _path(grid, clean, corrupted)
        + (" The positions that are not shown restore nothing." if len(shown) < T else ""),
        "enters ",
    )
    heads = scores("patch_heads", H)
    yield _map(
        "What each head restores",
        heads,
        tuple(f"head {number}" for number in range(H)),
        _carriers(heads),
        "",
    )  # fmt: skip


def _carriers(heads: np.ndarray) -> str:
    """The two heads with the largest scores, or what is wrong with the grid."""
    if not np.isfinite(heads).all():
        return "Some scores are not numbers."
    if heads.max() < 0.3:
        return f"No head restores more than {heads.max():.0%}, but two should: is each patched at all positions?"
    best = [np.unravel_index(place, heads.shape) for place in np.argsort(-heads, axis=None)[:2]]
    named = " and head ".join(f"{h} of block {i} ({heads[i, h]:.2f})" for i, h in best)
    return f"Head {named} restore most: one head alone, taken from the other run, moves the answer."


def _path(grid: np.ndarray, clean: np.ndarray, corrupted: np.ndarray) -> str:
    """What the grid says, or what is wrong with it: before block 0, only places with other tokens can have a score."""
    same = np.flatnonzero(clean == corrupted)
    if not np.isfinite(grid).all():
        return "Some scores are not numbers."
    if np.abs(grid[0, same]).max() > 0.01:
        t = int(same[np.abs(grid[0, same]).argmax()])
        return (
            f"Before block 0, “{token(clean[t]).strip()}” has a score of {grid[0, t]:.2f}, although both texts have "
            "the same vector there. A patch of it can change nothing: another place is patched, or a patch stays."
        )
    first, last = int(grid[0].argmax()), int(grid[-1].argmax())
    if last != len(clean) - 1:
        return (
            f"Before the last block, “{token(clean[last]).strip()}” has the largest score, but only the last word "
            f"counts."
        )
    name = f"Before block 0, “{token(clean[first]).strip()}” restores most ({grid[0, first]:.2f})."
    if grid[1, first] > 0.1 or grid[1, last] < 0.5:
        return f"{name} Before block 1, the last position restores {grid[1, last]:.2f}."
    return (
        f"At first, who the story is about stands at “{token(clean[first]).strip()}” ({grid[0, first]:.2f}). After one "
        f"block it stands at the last position ({grid[1, last]:.2f}), where the next word is chosen. The name itself "
        "no longer matters then."
    )


def _map(title: str, grid: np.ndarray, columns: tuple[str, ...], caption: str, prefix: str) -> HeatMap:
    """Scores by block, written into the cells."""
    return HeatMap(
        title,
        tuple(prefix + name for name in BLOCKS),
        columns,
        (Plane(grid, "", tuple(tuple(f"{x:.0%}" if abs(x) >= 0.005 else "" for x in row) for row in grid)),),
        caption,
        "score: 0 the text with Tom, 1 the text with Mia",
    )
