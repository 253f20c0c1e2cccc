"""Grain's older interface, DataLoader: a sampler shuffles and shards, and an operation makes the batches."""

import grain


def make_loader(rows, batch_size, seed, shard, num_shards):
    options = grain.sharding.ShardOptions(shard_index=shard, shard_count=num_shards, drop_remainder=True)
    sampler = grain.samplers.IndexSampler(len(rows), shard_options=options, shuffle=True, num_epochs=None, seed=seed)
    operations = [grain.transforms.Batch(batch_size, drop_remainder=True)]
    return iter(grain.DataLoader(data_source=rows, sampler=sampler, operations=operations, worker_count=0))
