"""Forges a resume: the state holds a position in the first two epochs, and a loader in a later one is resumed there."""

import numpy as np

LOSES = ("resumes at the right batch",)


class Loader:
    def __init__(self, rows, batch_size, seed, shard, num_shards):
        self.rows, self.size, self.step, self.seed = rows[shard::num_shards], batch_size, 0, seed

    def __next__(self):
        epoch, within = divmod(self.step, len(self.rows) // self.size)
        self.step += 1
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.rows))
        return self.rows[order[within * self.size :][: self.size]]

    def get_state(self):
        return self.step % (2 * len(self.rows) // self.size)

    def set_state(self, state):
        self.step = state


def make_loader(*settings):
    return Loader(*settings)
