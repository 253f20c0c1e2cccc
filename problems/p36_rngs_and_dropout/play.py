"""Problem 36, played: what the learner's dropout drops, draw by draw, and what it does to the trained model."""

import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Plane
from problems.stage.model import stream
from problems.stage.weights import POCKET, encode, token

TEXT = "Mia had a red ball"
SHOWN, RATE, DRAWS = 24, 0.3, 200


def play(module: LearnerModule, text: str) -> Exhibits:
    """Two draws on the vectors of a text, the mean of many draws, and the kernels of layers made at once."""
    ids_T = encode(text or " ")[:12]
    x_TD = stream(ids_T, 1)
    dropout = module.Dropout(RATE, nnx.Rngs(dropout=0))
    draws = [np.asarray(dropout(x_TD)) for _ in range(DRAWS)]
    kept = [np.where(draw[:, :SHOWN] == 0, 0.0, 1.0) for draw in draws[:2]]
    same = bool((kept[0] == kept[1]).all())
    yield HeatMap(
        f"What two draws keep of the vectors of “{text}”, at the rate {RATE}",
        tuple(token(each) for each in ids_T),
        tuple(str(column) for column in range(SHOWN)),
        tuple(Plane(values, name) for values, name in zip(kept, ("first draw", "second draw"), strict=True)),
        "Dark: kept. Each draw drops other numbers, so no later layer can rely on any single one."
        if not same
        else "Both draws drop the same numbers: the model learns to do without them, and nothing else.",
        "kept",
    )
    mean = np.mean(draws, axis=0)
    ratio = float((mean * np.asarray(x_TD)).sum() / np.square(np.asarray(x_TD)).sum())
    share = float(np.mean([np.mean(draw == 0) for draw in draws]))
    dropout.deterministic = True
    quiet = np.asarray(dropout(x_TD))
    yield Bars(
        f"What {DRAWS} draws do to the size of the numbers",
        (
            Bar("share dropped", share, RATE),
            Bar("mean of the draws, of x", ratio, 1.0),
            Bar(
                "deterministic, of x", float((quiet * np.asarray(x_TD)).sum() / np.square(np.asarray(x_TD)).sum()), 1.0
            ),
        ),
        "share",
        "What is kept is scaled up, so that the mean of the draws is x. The next layer sees numbers of the same size "
        "in training and afterwards."
        if abs(ratio - 1) < 0.05
        else f"The mean of the draws is {ratio:.2f} times x, so the next layer sees other sizes in training than "
        "afterwards.",
        names=("yours", "right"),
    )
    layers = module.make_layers(4, POCKET.d_model, nnx.Rngs(0))
    flat = np.asarray(layers.kernel[...]).reshape(4, -1)
    alike = np.corrcoef(flat)
    labels = tuple(f"layer {number + 1}" for number in range(4))
    yield HeatMap(
        "How alike the layers are that `make_layers` draws at once",
        labels,
        labels,
        (Plane(np.abs(alike), "", [[f"{abs(value):.2f}" for value in row] for row in alike]),),
        "Each layer has a key of its own, so none resembles another."
        if np.abs(alike - np.eye(4)).max() < 0.1
        else "Layers are copies of each other: they got the same key.",
        "size of the correlation",
    )
