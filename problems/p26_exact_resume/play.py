"""Problem 26, played: a run with random numbers and shuffled data that is killed, and resumed by the learner's code."""

from typing import Any

import jax
from flax import nnx

from grader.authoring import Stories, new_folder
from grader.exhibits import Exhibits, LearnerModule, Table
from problems.stage import runs

BEFORE, AFTER, BATCH = 14, 14, 8


def play(module: LearnerModule) -> Exhibits:
    """The losses of both runs, then where each is in its data and its random numbers."""

    def make() -> tuple[Any, ...]:
        return *runs.make(), nnx.Rngs(noise=1)

    def make_loader() -> Stories:
        return Stories(runs.ROWS, BATCH)

    def steps(model: Any, optimizer: Any, rngs: nnx.Rngs, loader: Stories, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            losses.append(
                float(runs.step(model, optimizer, next(loader), jax.random.uniform(rngs.noise(), (BATCH, runs.T))))
            )
        return losses

    run = (*runs.make(), nnx.Rngs(noise=0), make_loader())
    losses = steps(*run, BEFORE)
    path = new_folder() / "run"
    module.save(str(path), *run)
    losses += steps(*run, AFTER)
    resumed: tuple[Any, Any, Any, Any] = module.resume(str(path), make, make_loader)
    again = steps(*resumed, AFTER)
    yield runs.on_each_other(
        "A run that never stopped, and one that your code resumed",
        {"never stopped": losses, "resumed": again},
        BEFORE,
        "All losses are the same, bit for bit: nobody can tell that the run was ever stopped.",
    )
    rows = [("place in the data", *(str(each[3].get_state()) for each in (run, resumed)))]
    rows += [("keys drawn", *(str(int(each[2].noise.count[...])) for each in (run, resumed)))]
    rows += [("next random number", *(f"{float(jax.random.uniform(each[2].noise())):.6f}" for each in (run, resumed)))]
    yield Table(
        "The two runs at their end",
        ("", "never stopped", "resumed"),
        tuple(rows),
        "Besides the model and the optimizer, a run is a place in the data and a state of random numbers."
        + ("" if all(a == b for _, a, b in rows) else " Here they are not the same."),
    )
