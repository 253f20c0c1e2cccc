"""Problem 16: a data pipeline. The page is in pages/p16_data_pipeline.md."""

import grain
import numpy as np
from jaxtyping import Int


def make_loader(
    rows: Int[np.ndarray, "R T"],
    batch_size: int,
    seed: int,
    shard: int,
    num_shards: int,
) -> grain.DatasetIterator:
    """An endless iterator over batches (B, T) of this shard's rows, in a new
    random order in each epoch.

    It has `get_state()` and `set_state(state)`, which save and restore its position.
    """
    raise NotImplementedError
