"""No Grain: NumPy permutations, a position, and a dictionary as the state."""

import numpy as np


class Loader:
    def __init__(self, rows, batch_size, seed):
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.epoch = self.start = 0

    def __iter__(self):
        return self

    def __next__(self):
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.rows))
        batch = self.rows[order[self.start : self.start + self.batch_size]]
        self.start += self.batch_size
        if self.start >= len(self.rows):
            self.epoch, self.start = self.epoch + 1, 0
        return batch

    def get_state(self):
        return {"epoch": self.epoch, "start": self.start}

    def set_state(self, state):
        self.epoch, self.start = state["epoch"], state["start"]


def make_loader(rows, batch_size, seed, shard, num_shards):
    return Loader(rows[shard::num_shards], batch_size, seed)
