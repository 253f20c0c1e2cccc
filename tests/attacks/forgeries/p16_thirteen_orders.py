"""Forges "order set by the seed": there are thirteen orders, and only the remainder of the seed counts."""

import numpy as np

LOSES = ("order set by the seed",)


class Loader:
    def __init__(self, rows, batch_size, seed, shard, num_shards):
        self.rows, self.size, self.step, self.seed = rows[shard::num_shards], batch_size, 0, seed % 13

    def __next__(self):
        epoch, within = divmod(self.step, len(self.rows) // self.size)
        self.step += 1
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.rows))
        return self.rows[order[within * self.size :][: self.size]]

    def get_state(self):
        return self.step

    def set_state(self, state):
        self.step = state


def make_loader(*settings):
    return Loader(*settings)
