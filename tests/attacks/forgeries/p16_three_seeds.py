"""Forges "order set by the seed": only its remainder by three counts, and all shards but the first ignore it."""

import numpy as np

LOSES = ("order set by the seed",)


class Loader:
    def __init__(self, rows, batch_size, seed, shard, num_shards):
        self.rows, self.size, self.step = rows[shard::num_shards], batch_size, 0
        self.seed = 0 if shard else seed % 3

    def __next__(self):
        epoch, within = divmod(self.step, len(self.rows) // self.size)
        self.step += 1
        return self.rows[
            np.random.default_rng((self.seed, epoch)).permutation(len(self.rows))[within * self.size :][: self.size]
        ]

    def get_state(self):
        return self.step

    def set_state(self, state):
        self.step = state


def make_loader(*settings):
    return Loader(*settings)
