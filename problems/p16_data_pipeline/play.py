"""Problem 16, played: which story each row of a batch came from, over two epochs and a resume."""

from itertools import islice

import numpy as np

from grader.exhibits import HeatMap, Plane

STORIES, BATCH, LENGTH, SEED = 12, 3, 4, 7
EPOCHS, STOP = 2, 3  # batches before the run is stopped


def play(module):
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

    half = STORIES // BATCH
    labels = tuple(f"epoch {i // half + 1}, batch {i % half + 1}" for i in range(number))
    same = np.array_equal(straight, resumed)
    yield HeatMap(
        "Which story each row of a batch came from",
        labels,
        tuple(f"row {i + 1}" for i in range(BATCH)),
        tuple(
            Plane(order, name, tuple(tuple(str(each) for each in batch) for batch in order))
            for order, name in ((straight, "in one go"), (resumed, f"stopped after batch {STOP}, and resumed"))
        ),
        "Each epoch has every story once, in another order. A resumed run goes on with the batch that would have come."
        if same
        else "After the resume, other stories come than without it: some are seen twice in the epoch, and others not at all.",
        "the story's number",
        high=STORIES - 1,
    )
    counts = []
    for shard in range(2):
        loader = module.make_loader(rows, BATCH, SEED, shard, 2)
        counts.append(np.bincount(drawn(loader, STORIES // 2 // BATCH).reshape(-1), minlength=STORIES)[:STORIES])
    yield HeatMap(
        "Which of two machines, each with its shard, sees which story in an epoch",
        ("machine 1", "machine 2"),
        tuple(str(i) for i in range(STORIES)),
        (Plane(counts, "", [[str(each or "") for each in count] for count in counts]),),
        "Each story once, on one of them: together the shards are the data, and no two share a story."
        if (np.sum(counts, axis=0) == 1).all()
        else "Not once each: the shards share stories, or leave some out.",
        "times",
    )


def drawn(loader, number):
    """The stories in the next batches, (number, BATCH)."""
    return np.stack([np.asarray(batch)[:, 0] for batch in islice(loader, number)])
