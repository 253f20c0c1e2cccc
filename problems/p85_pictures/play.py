"""Problem 85, played: which pixels a token sees, where tokens stand, who sees whom, which patches are near, and what
the loss teaches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Story, Token

WORD = (
    "................................",
    "..######....######....########..",
    "..######....######....########..",
    ".##....##...##...##......##.....",
    ".##.........##...##......##.....",
    ".##..####...######.......##.....",
    ".##..####...######.......##.....",
    ".##....##...##...........##.....",
    ".##....##...##...........##.....",
    "..######....##...........##.....",
    "..######....##...........##.....",
    "................................",
)
PATCH, MERGE = 2, 2
SIDE = PATCH * MERGE  # of the square of pixels that a token sees
TEXTS = (("What", "is", "in"), ("and", "in"), ("?", "A", "cat", "."))
GRIDS = np.array([[2, 4], [3, 2]], np.int32)
PLACEHOLDER = 99
SHOWN = 4  # tokens
ROWS, COLUMNS, BASE, PAIRS, SHARP = 9, 15, 100.0, 18, 12.0  # of a picture whose patches are compared, and of a head
MIDDLE = ROWS // 2 * COLUMNS + COLUMNS // 2


def play(module: LearnerModule) -> Exhibits:
    """Maps of pixels, positions, mask and scores, and a sequence with what the loss teaches."""
    picture = np.array([[letter == "#" for letter in line] for line in WORD], "float32")
    Y, X = picture.shape
    numbers = np.arange(Y * X, dtype="float32").reshape(Y, X, 1)
    patches = np.asarray(module.patchify(numbers, PATCH, MERGE)).astype(int)
    tokens = patches.reshape(-1, SIDE * SIDE)
    first = np.zeros(Y * X)
    for token, pixels in enumerate(tokens[:SHOWN]):
        first[pixels] = 1 - token / SHOWN
    heights, widths = np.ptp(tokens // X, axis=1) + 1, np.ptp(tokens % X, axis=1) + 1
    across = X // SIDE
    yield HeatMap(
        f"A picture of {Y} x {X} pixels, and what its first {SHOWN} tokens see",
        tuple(map(str, range(Y))),
        tuple(map(str, range(X))),
        (Plane(picture, "the picture"), Plane(first.reshape(Y, X), f"tokens 0 to {SHOWN - 1}")),
        f"Each of the {len(tokens)} tokens sees a square of {SIDE} x {SIDE} pixels, and the next token the square to "
        "its right."
        if max(*heights, *widths) == SIDE and tokens[1].min() % X == SIDE
        else f"Your token 0 sees pixels in {heights[0]} rows and {widths[0]} columns; a square has {SIDE} of each."
        if max(*heights, *widths) > SIDE
        else f"Your tokens see squares, but token 1 does not see the one to the right of token 0; {across} squares "
        "stand side by side.",
        meaning="brightness; token 0 is the darkest",
    )

    token_ids, words = sequence()
    positions, pictures = (np.asarray(part) for part in module.layout(token_ids, PLACEHOLDER, GRIDS))
    T, places = len(token_ids), np.arange(len(token_ids))
    largest, used = int(positions[:, -1].max()), sum(map(len, TEXTS)) + int(GRIDS.max(axis=1).sum())
    yield Lines(
        f"Where the {T} tokens of two pictures and three texts stand",
        (
            *(Line(name, places, axis) for name, axis in zip(("time", "row", "column"), positions, strict=True)),
            Line("counted", places, places),
        ),
        f"In a picture, the time stands still while rows and columns count. Then the text continues after the largest "
        f"position: the last token stands at {largest}, and it would be {T - 1} if all tokens were counted."
        if largest == used - 1
        else f"Your last token stands at {largest}. The tokens use {used} positions, so it should be {used - 1}.",
        x="token",
        y="position",
    )

    mask = np.asarray(module.picture_mask(jnp.asarray(pictures))).astype(bool)
    own = [mask[pictures == number][:, pictures == number].all() for number in (1, 2)]
    later = [
        mask[pictures == number][:, places > np.flatnonzero(pictures == number).max(initial=0)] for number in (1, 2)
    ]
    yield HeatMap(
        "Which token (row) sees which (column)",
        words,
        words,
        (Plane(mask.astype(float)),),
        "Your pictures see later tokens that are not their own."
        if any(part.any() for part in later)
        else "Two blocks stand out above the diagonal: within a picture, all tokens see each other. Nothing else sees "
        "what comes later."
        if all(own)
        else "The tokens of a picture do not all see each other.",
        meaning="sees",
    )

    ids = np.full(ROWS * COLUMNS, PLACEHOLDER, np.int32)
    grid = np.asarray(module.layout(ids, PLACEHOLDER, np.array([[ROWS, COLUMNS]], np.int32))[0])
    near, counted = looks(module, grid), looks(module, np.stack([np.arange(len(ids))] * 3))
    right, below = near[ROWS // 2, COLUMNS // 2 + 1], near[ROWS // 2 + 1, COLUMNS // 2]
    yield HeatMap(
        f"How much the middle patch of {ROWS} x {COLUMNS} looks at each patch, if all patches are alike",
        tuple(map(str, range(ROWS))),
        tuple(map(str, range(COLUMNS))),
        (Plane(near, "on three axes"), Plane(counted, "counted")),
        "On three axes, it looks around itself, in all directions. Counted, it looks along its row: the patch below is "
        f"{COLUMNS} positions away, and its weight is {counted[ROWS // 2 + 1, COLUMNS // 2]:.0%} of the largest in "
        f"place of {below:.0%}."
        if abs(right - below) < 0.1 and right > 0.5 > near[0, 0]
        else "The patch in the corner gets nearly the weight of the middle one: your rotation hardly tells them apart."
        if near[0, 0] > 0.5
        else f"The patch to the right has {right:.0%} of the largest weight, and the patch below {below:.0%}. They "
        "should have about the same, and more than 50%.",
        meaning="share of the largest weight",
    )

    slope = jax.grad(module.text_loss)(jnp.zeros((T, PLACEHOLDER + 1)), jnp.asarray(token_ids), jnp.asarray(pictures))
    taught = np.append(0.0, np.abs(np.asarray(slope)).sum(axis=1)[:-1])  # by the target of each token
    share = taught / max(taught.sum(), 1e-9)
    lost, text = share[pictures > 0].sum(), np.append(False, pictures[1:] == 0)
    yield Story(
        "What the loss teaches: the share of each token as a target",
        tuple(Token(word + " ", 100 * part) for word, part in zip(words, share, strict=True)),
        f"{lost:.0%} of your loss is about placeholders. The model learns to write them."
        if lost > 1e-6
        else "Your loss leaves out a text token that follows a picture."
        if (share[text] == 0).any()
        else "All text counts but the first token, which nothing predicts. The first word after a picture is predicted "
        "by its last patch.",
        meaning="% of the loss",
        strongest=20.0,
    )


def sequence() -> tuple[Any, tuple[str, ...]]:
    """The ids of a sequence of three texts and two pictures, and a word for each token."""
    words: list[str] = []
    for place, text in enumerate(TEXTS):
        words += text
        if place < len(GRIDS):
            words += ["▢"] * int(GRIDS[place].prod())
    ids = [PLACEHOLDER if word == "▢" else place for place, word in enumerate(words)]
    return np.array(ids, np.int32), tuple(words)


def looks(module: LearnerModule, positions: Any) -> Any:
    """The weight of the middle patch on all patches, (ROWS, COLUMNS), where each pair of a query and of a key is
    (1, 0): 1 at its own place."""
    x = np.zeros((ROWS * COLUMNS, 1, 2 * PAIRS), "float32")
    x[:, :, :PAIRS] = 1
    axes = jnp.asarray(np.arange(PAIRS) % 3, jnp.int32)
    turned = np.asarray(module.rotate(jnp.asarray(x), jnp.asarray(positions, jnp.int32), axes, BASE))[:, 0]
    scores = turned @ turned[MIDDLE] / PAIRS
    return np.exp(SHARP * (scores - scores.max())).reshape(ROWS, COLUMNS)
