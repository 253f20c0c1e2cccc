"""Problem 33, played: the tree of the learner's module, what each filter takes of it, and what its mean learns."""

import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Table
from problems.stage.weights import POCKET, held_out

STORIES, TOPICS, LAYERS = 40, 3, 2
FILTERS = {"nnx.Param": nnx.Param, "nnx.BatchStat": nnx.BatchStat, "nnx.Variable": nnx.Variable}


def play(module: LearnerModule) -> Exhibits:
    """The variables of the module by path and filter, then its running mean while it observes stories."""
    scorer = module.construct("StoryScorer", d_model=POCKET.d_model, num_topics=TOPICS, num_layers=LAYERS)()
    taken = {name: {path for path, _ in nnx.to_flat_state(nnx.state(scorer, kind))} for name, kind in FILTERS.items()}
    rows = [
        (
            ".".join(map(str, path)),
            " × ".join(map(str, variable.shape)),
            *("yes" if path in paths else "" for paths in taken.values()),
        )
        for path, variable in nnx.to_flat_state(nnx.state(scorer))
    ]
    yield Table(
        "What your module holds, and which filter takes it",
        ("path", "shape", *(name.removeprefix("nnx.") for name in FILTERS)),
        tuple(rows),
        "An optimizer with `wrt=nnx.Param` trains what the first filter takes. `nnx.state` finds by path what you set "
        "as an attribute, in a list or in a dictionary.",
    )
    table_VD = POCKET.arrays["embed.embedding"]
    stories_ND = np.stack([table_VD[ids].mean(axis=0) for ids in held_out(STORIES)])
    goal_D = stories_ND.mean(axis=0)
    gaps = []
    for x_D in stories_ND:
        gaps.append(float(np.linalg.norm(np.asarray(scorer.mean[...]) - goal_D)))
        scorer.observe(jnp.asarray(x_D))
    yield Lines(
        "How far your running mean is from the mean of all stories",
        (Line("distance", np.arange(STORIES), gaps),),
        "Each story moves it a tenth of the way. No gradient is needed, so an optimizer must not touch it."
        if gaps[-1] < gaps[0] / 3
        else "`observe` does not move it there.",
        x="stories observed",
        y="distance",
    )
