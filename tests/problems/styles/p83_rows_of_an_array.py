"""A row of NumPy arrays for each block, and users that are counted from the tables of the sequences each time."""

import contextlib

import numpy as np


class RadixCache:
    def __init__(self, num_blocks, block_size):
        self.tokens = np.zeros((num_blocks, block_size), np.int64)
        self.before = np.full(num_blocks, -2)  # -2: empty; -1: the first block of a text
        self.last = np.zeros(num_blocks, np.int64)
        self.tables, self.now = {}, 0

    def rows(self, token_ids):
        S = self.tokens.shape[1]
        return np.asarray(token_ids, np.int64)[: len(token_ids) // S * S].reshape(-1, S)

    def match(self, token_ids):
        blocks, before = [], -1
        for row in self.rows(token_ids):
            near = np.flatnonzero(self.before == before)
            same = near[(self.tokens[near] == row).all(axis=1)]
            if not len(same):
                break
            before = int(same[0])
            blocks.append(before)
        return blocks

    def in_use(self, *more):
        used = np.zeros(len(self.before), bool)
        for table in [*self.tables.values(), *more]:
            used[table] = True
        return used

    def insert(self, name, token_ids):
        rows, blocks = self.rows(token_ids), self.match(token_ids)
        there = len(blocks)
        if len(rows) - there > len(self.before) - self.in_use(blocks).sum():
            raise MemoryError
        self.tables[name] = blocks
        self.evict(len(rows) - there - self.free_blocks())
        for row, block in zip(rows[there:], np.flatnonzero(self.before == -2).tolist(), strict=False):
            self.tokens[block], self.before[block] = row, blocks[-1] if blocks else -1
            blocks.append(block)
        self.now += 1
        self.last[blocks] = self.now
        return blocks.copy(), there

    def release(self, name):
        self.now += 1
        self.last[self.tables.pop(name)] = self.now

    def evict(self, count):
        gone, used = [], self.in_use()
        while len(gone) < count:
            followed = np.zeros(len(used) + 1, bool)
            followed[self.before[self.before > -1]] = True
            leaves = np.flatnonzero(~used & ~followed[:-1] & (self.before > -2))
            if not len(leaves):
                break
            gone.append(int(leaves[self.last[leaves].argmin()]))
            self.before[gone[-1]] = -2
        return gone

    def free_blocks(self):
        return int((self.before == -2).sum())


class TwoPools:
    def __init__(self, prompt_caches, decode_caches, block_size, max_running):
        self.caches = {"prompt": prompt_caches, "decode": decode_caches}
        self.limits = {"prompt": 1, "decode": max_running}
        self.loads = {pool: np.zeros(len(caches), int) for pool, caches in self.caches.items()}
        self.S, self.texts, self.at = block_size, {}, {}
        self.arrived, self.ready = [], []

    def add(self, name, token_ids):
        self.texts[name] = np.array(token_ids)
        self.arrived.append(name)

    def place(self, pool, name):
        caches, load = self.caches[pool], self.loads[pool]
        lengths = np.array([len(cache.match(self.texts[name])) for cache in caches])
        for worker in np.lexsort((load, -lengths)).tolist():
            if load[worker] < self.limits[pool]:
                try:
                    _, cached = caches[worker].insert(name, self.texts[name])
                except MemoryError:
                    continue
                load[worker] += 1
                return worker, cached * self.S
        return None

    def schedule(self):
        moves, prompts = [], []
        for name in list(self.ready):
            if (placed := self.place("decode", name)) is None:
                break
            source, self.at[name] = self.at[name], placed[0]
            self.caches["prompt"][source].release(name)
            moves.append((name, source, placed[0], len(self.texts[name]) - placed[1]))
        self.ready = self.ready[len(moves) :]
        for name in list(self.arrived):
            if (placed := self.place("prompt", name)) is None:
                break
            self.at[name] = placed[0]
            prompts.append((name, placed[0], min(placed[1], len(self.texts[name]) - 1)))
        self.arrived = self.arrived[len(prompts) :]
        return prompts, moves

    def computed(self, name):
        self.loads["prompt"][self.at[name]] -= 1
        self.ready.append(name)

    def finish(self, name, token_ids):
        worker = self.at.pop(name)
        self.loads["decode"][worker] -= 1
        cache = self.caches["decode"][worker]
        with contextlib.suppress(MemoryError):
            cache.insert(name, token_ids)
        cache.release(name)
