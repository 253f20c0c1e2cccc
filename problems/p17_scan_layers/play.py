"""Problem 17, played: the size of the learner's program over depth, and the trained model made of that stack."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.programs import floats, operations
from problems.stage.weights import POCKET, build

OPENING = "Once there was a friendly"
DEPTHS = (1, 6, 12, 24)
T, D, L = 32, POCKET.d_model, POCKET.num_layers
SIZES = {"d_model": D, "num_heads": POCKET.num_heads, "d_ff": POCKET.d_ff}


class Whole(nnx.Module):
    """The trained model with a stack of layers in place of its blocks."""

    def __init__(self, stack: nnx.Module) -> None:
        self.base: Any = gpt(0)
        self.stack: Any = stack

    def __call__(self, ids_T: jax.Array) -> jax.Array:
        x_TD = self.stack(self.base.embed[ids_T] + self.base.pos_embed[: len(ids_T)])
        return self.base.logits(self.base.ln_f(x_TD))


def play(module: LearnerModule) -> Exhibits:
    """Operations over depth, beside a loop over single layers; then a story by a stack with trained layers."""
    counts = []
    for depth in DEPTHS:
        graph, state = nnx.split(nnx.eval_shape(module.construct("LayerStack", **SIZES, num_layers=depth)))
        counts.append(operations(lambda state, x_TD, graph=graph: nnx.merge(graph, state)(x_TD), state, floats(T, D)))
    yield Lines(
        "Operations in the program of a stack of layers",
        (
            Line("your stack", DEPTHS, counts),
            Line("one layer after the other", DEPTHS, [counts[0] * depth for depth in DEPTHS]),
        ),
        "The compiler reads each operation. Yours stays the same program however deep the model is, so it compiles as "
        "fast."
        if counts[-1] < 2.5 * counts[0]
        else "Your program grows with the depth, and with it the time to compile.",
        x="layers",
        y="operations",
    )
    names = {name.split(".", 2)[2] for name in POCKET.arrays if name.startswith("blocks.")}
    arrays = {f"blocks.{name}": POCKET.stacked(name, L).astype(np.float32) for name in names}
    stack = build(module.construct("LayerStack", **SIZES, num_layers=L), arrays, "LayerStack")
    told = telling.tell(Whole(stack), 60, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your stack for its layers",
        telling.judged(told, "What one program for all layers wrote is a story to it."),
    )
