"""Shuffled as a whole, then split into shards, with threads that read ahead."""

import grain


def make_loader(rows, batch_size, seed, shard, num_shards):
    return iter(
        grain.MapDataset.source(rows)
        .seed(seed)
        .shuffle()
        .slice(slice(shard, None, num_shards))
        .batch(batch_size, drop_remainder=True)
        .repeat()
        .to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4))
    )
