"""Problem 34, played: parts of the trained model are copied, and a run that went wrong is taken back, by the learner's
code."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage.model import gpt
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import before_training, held_out

STORIES, T = 8, 64
RUINED = 6  # steps


def play(module: LearnerModule) -> Exhibits:
    """The loss of a random model that gets trained parts, and of an average; then a run that is restored."""
    ids_BT = np.stack([ids[:T] for ids in held_out(STORIES)])
    full: Any = gpt()
    model: Any = gpt(weights=before_training())
    graph = nnx.graphdef(full)
    score = jax.jit(lambda state: -jnp.mean(target_log_probabilities(nnx.merge(graph, state), ids_BT)))

    def loss(model: nnx.Module) -> float:
        return float(score(nnx.state(model)))

    model.embed[...], model.pos_embed[...] = full.embed[...], full.pos_embed[...]
    bars = [Bar("trained tables only", loss(model))]
    for name, said in (("ln_f", "the last norm, too"), ("blocks", "the blocks, too")):
        module.copy_part(model, full, name)
        bars.append(Bar(said, loss(model)))
    bars.append(Bar("average of two equal", loss(module.average(full, model))))
    bars.append(Bar("average with a random", loss(module.average(full, gpt(weights=before_training())))))
    yield Bars(
        "The loss while `copy_part` brings trained parts into a random model",
        tuple(bars),
        "nats per token",
        "Only when all parts are there do they work: each was trained with the others. The average of a trained and a "
        "random model is no good model, either.",
    )

    # The stored weights have few digits; these have as many as those of any run.
    nnx.update(model, jax.tree.map(lambda x: x * (1 + 1e-4), nnx.state(model, nnx.Param)))
    optimizer = nnx.Optimizer(model, optax.adam(3e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any) -> None:
        optimizer.update(model, nnx.grad(lambda model: -jnp.mean(target_log_probabilities(model, ids_BT)))(model))

    losses, saved = [loss(model)], module.snapshot(model, optimizer)
    for _ in range(2):
        for _ in range(RUINED):
            step(model, optimizer)
            losses.append(loss(model))
        module.restore(model, optimizer, saved)
        losses.append(loss(model))
    back = max(abs(losses[0] - losses[(RUINED + 1) * turn]) for turn in (1, 2))
    again = max(abs(a - b) for a, b in zip(losses[1 : RUINED + 1], losses[RUINED + 2 :], strict=False))
    yield Lines(
        "A learning rate that is far too high, and your `restore`, twice",
        (Line("loss", np.arange(len(losses)), losses),),
        "The model is back each time, and ruined in the same way again: the optimizer is back, too."
        if max(back, again) == 0
        else f"After `restore`, the loss is {back:.2g} off"
        + (", and the second time goes otherwise: something was not restored." if again else "."),
    )
