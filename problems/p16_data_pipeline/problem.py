"""Problem 16: a data pipeline that is shuffled, sharded, endless and resumable."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import Case, Cases, Difference, Entry, Problem


def rows(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows whose first entry is the number of the row."""
    N = sizes["B"] * sizes["batches"] * sizes["shards"]
    table = rng.integers(0, 1000, (N, sizes["T"])).astype("int32")
    table[:, 0] = range(N)
    return {"rows": table, "batch_size": sizes["B"], "num_shards": sizes["shards"], "seed": int(rng.integers(1000))}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The size of the table, which holds random numbers."""
    N, T = values["rows"].shape
    table = f"{N} rows of {T} numbers; the first number of a row is its index"
    return {"the rows": table, **{name: value for name, value in values.items() if name != "rows"}}


def reading(case: Case, wrong: Difference) -> str:
    epoch, row = wrong.index
    return f"row {row} is read {wrong.got} times in epoch {epoch}, expected {wrong.expected}"


def resuming(case: Case, wrong: Difference) -> str:
    rows, shards, B = (case.values[name] for name in ("rows", "num_shards", "batch_size"))
    steps = len(rows) // int(shards) // int(B)
    (i,) = wrong.index
    stop, shard = (0, 1, steps - 1, steps, steps + 1, 2 * steps + 1)[i], i % int(shards)
    if wrong.path == "resumed.continues":
        return (
            f"after a resume of shard {shard} with the state of batch {stop}, a later batch is not the one that follows"
        )
    place = f"is batch {wrong.got}" if wrong.got != "-1" else "is none that the first loader gave"
    return (
        f"after a resume of shard {shard} with the state of batch {stop}, the next batch {place}, "
        f"expected batch {wrong.expected}"
    )


# The permutation of a seed is not prescribed, so the checks compare properties that all correct loaders share.
PROBLEM = Problem(
    title="A data pipeline",
    minutes=30,
    builds_on=(15,),
    entries=(Entry("make_loader", ("rows", "batch_size", "seed", "shard", "num_shards")),),
    cases={
        "cases": Cases(rows, {"B": (4, 5), "batches": (5, 4), "shards": (2, 3), "T": (3,)}, draws=2, show=shown),
        "one": Cases(
            rows, {"B": (1,), "batches": (7, 11), "shards": (1,), "T": (1,)}, draws=1, show=shown, covers=("one",)
        ),
    },
    checks=(
        exact(
            "batches of whole rows", 1, "loading", "intact", read=True, words=YES,
            advice="Each batch must be int32, (B, T), and its rows must be rows of the data.",
        ),
        exact(
            "each example once per epoch", 2, "loading", "times_seen", read=True, in_words=reading,
            advice="All shards together must read each example exactly once per epoch. `times_seen[epoch, row]` counts "
            "how often a row was read.",
        ),
        exact(
            "shuffled", 1, "loading", "shuffled", read=True, words=YES,
            advice="Shuffle every shard with `.shuffle(seed=seed)`, before `.repeat()` and `.batch(...)`, so that each "
            "epoch has its own order.",
        ),
        exact(
            "order set by the seed", 1, "loading", "seeded", read=True, words=YES,
            advice="The same arguments must give the same batches, and another seed must give other batches.",
        ),
        exact(
            "one shard, one example at a time", 1, "loading", "times_seen", cases="one", read=True, in_words=reading,
            advice="There is one shard here, a batch has one row, and a row has one number: the axes stay.",
        ),
        exact(
            "resumes at the right batch", 2, "resuming", "resumed", saved_by="loading", read=True, in_words=resuming,
            advice="A new loader that receives the state must continue with the very next batch, in this epoch and in "
            "later ones. `resumed.at_batch` is the number of its first batch, -1 for a batch that the first loader "
            "never gave.",
        ),
    ),
    timeout=60.0,
    without={"coprime": "the page's sizes share factors: `num_shards` divides R, and `batch_size` divides what is "
        "left"},
)  # fmt: skip
