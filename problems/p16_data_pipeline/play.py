"""Problem 16, played: which story each row of a batch came from, over two epochs and a resume."""

from typing import Any

import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Plane, Table

STORIES, BATCH, LENGTH, SEED = 12, 3, 4, 7
EPOCHS, STOP = 2, 3  # batches before the run is stopped


def play(module: LearnerModule) -> Exhibits:
    """The order of the stories with and without a resume, then how often two shards see each story in an epoch."""
    rows = np.repeat(np.arange(STORIES, dtype=np.int32)[:, None], LENGTH, axis=1)
    number = EPOCHS * STORIES // BATCH

    straight = drawn(module.make_loader(rows, BATCH, SEED, 0, 1), number)
    loader = module.make_loader(rows, BATCH, SEED, 0, 1)
    before = drawn(loader, STOP)
    state = loader.get_state()
    loader = module.make_loader(rows, BATCH, SEED, 0, 1)
    loader.set_state(state)
    resumed = np.concatenate([before, drawn(loader, number - STOP)])

    epoch = STORIES // BATCH
    yield Table(
        "Which stories each batch holds",
        ("", "in one go", f"stopped after batch {STOP}, and resumed"),
        tuple(
            (
                f"epoch {i // epoch + 1}, batch {i % epoch + 1}",
                *(" ".join(f"{each:2}" for each in batch) for batch in batches),
            )
            for i, batches in enumerate(zip(straight, resumed, strict=True))
        ),
        told(straight, resumed),
    )
    counts = []
    for shard in range(2):
        loader = module.make_loader(rows, BATCH, SEED, shard, 2)
        counts.append(np.bincount(drawn(loader, STORIES // 2 // BATCH).reshape(-1), minlength=STORIES)[:STORIES])
    yield HeatMap(
        "Which of two machines, each with its shard, sees which story in an epoch",
        ("machine 1", "machine 2"),
        tuple(str(i) for i in range(STORIES)),
        (Plane(counts),),
        "Each story once, on one of them: together the shards are the data, and no two share a story."
        if (np.sum(counts, axis=0) == 1).all()
        else "Not once each: the shards share stories, or leave some out.",
        "times",
        high=2,
    )


def told(straight: np.ndarray, resumed: np.ndarray) -> str:
    """What the two orders of batches show."""
    epochs = np.sort(straight.reshape(EPOCHS, STORIES))
    if not np.array_equal(straight, resumed):
        times = [np.bincount(each, minlength=STORIES)[:STORIES] for each in resumed.reshape(EPOCHS, STORIES)]
        twice, never = (sum(int(test(each).sum()) for each in times) for test in (lambda x: x > 1, lambda x: x == 0))
        return (
            "After the resume, other stories come than without it. In the two epochs together, "
            f"{twice} are seen more than once in an epoch, and {never} not at all."
        )
    if not (epochs == np.arange(STORIES)).all():
        return (
            "A resumed run continues with the batch that would have come. But an epoch does not have every story once."
        )
    if np.array_equal(*straight.reshape(EPOCHS, STORIES)):
        return "A resumed run continues with the batch that would have come. But both epochs have one order."
    return (
        "Each epoch has every story once, in another order. A resumed run continues with the batch that would have "
        "come."
    )


def drawn(loader: Any, number: int) -> np.ndarray:
    """The stories in the next batches, (number, BATCH)."""
    return np.stack([np.asarray(next(loader))[:, 0] for _ in range(number)])
