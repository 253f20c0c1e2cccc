"""Problem 16: shuffled, sharded, endless, and able to go on where it stopped."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES
from grader.problem import EXACT, Cases, Check, Entry, Problem


def rows(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows that tell their own number: it is their first entry."""
    N = sizes["B"] * sizes["batches"] * sizes["shards"]
    table = rng.integers(0, 1000, (N, sizes["T"])).astype("int32")
    table[:, 0] = range(N)
    return {"rows": table, "batch_size": sizes["B"], "num_shards": sizes["shards"], "seed": int(rng.integers(1000))}


def look(name: str, points: int, leaves: str, advice: str, **more: Any) -> Check:
    return Check(name, points, "loading", leaves=leaves, tolerance=EXACT, advice=advice, **more)


# Which permutation a seed stands for is not prescribed; what every right loader has in common is.
PROBLEM = Problem(
    title="A data pipeline",
    builds_on=(15,),
    entries=(Entry("make_loader", ("rows", "batch_size", "seed", "shard", "num_shards")),),
    cases={"cases": Cases(rows, {"B": (4, 5), "batches": (5, 4), "shards": (2, 3), "T": (3,)}, draws=2)},
    checks=(
        look("batches of whole rows", 1, "intact", "A batch is (B, T), int32, and its rows are rows of the data.", words=YES),
        look(
            "each example once an epoch", 2, "times_seen",
            "Of all shards together, each epoch must see each example exactly once. Row by row: how often it was seen.",
        ),
        look("shuffled", 1, "shuffled", "Shuffle with `.shuffle(seed=seed)`, before `.repeat()` and `.batch(...)`.", words=YES),
        look(
            "the seed decides the order", 1, "seeded",
            "The same arguments must give the same batches, and another seed other ones.", words=YES,
        ),
        look(
            "goes on where it stopped", 2, "resumed",
            "A new loader that is given the state must continue with the very next batch, in this epoch and in later ones.",
        ),
    ),
    timeout=60.0,
)  # fmt: skip
