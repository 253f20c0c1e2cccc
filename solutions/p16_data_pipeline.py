"""Problem 16, reference: a data pipeline."""

import grain
import numpy as np
from jaxtyping import Int


def make_loader(
    rows: Int[np.ndarray, "R T"], batch_size: int, seed: int, shard: int, num_shards: int
) -> grain.DatasetIterator:
    """An endless iterator whose state is a position. The seed and the epoch determine the order."""
    dataset = grain.MapDataset.source(rows)[shard::num_shards].shuffle(seed=seed).repeat()
    batches = dataset.batch(batch_size, drop_remainder=True)
    # Rows in memory need no threads that read ahead.
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)))
