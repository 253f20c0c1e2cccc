"""No tree: a table from (block before, tokens) to block, as vLLM has it, and one record for each request."""

import contextlib
from collections import Counter


class RadixCache:
    def __init__(self, num_blocks, block_size):
        self.size = block_size
        self.empty = set(range(num_blocks))
        self.table, self.key_of = {}, {}
        self.followers, self.references = Counter(), Counter()
        self.order = {}  # blocks from the least to the most recently used one
        self.held = {}

    def _look(self, token_ids):
        before, found, start = None, [], 0
        while start + self.size <= len(token_ids):
            block = self.table.get((before, tuple(token_ids[start : start + self.size])))
            if block is None:
                break
            found.append(block)
            before, start = block, start + self.size
        return found

    def _use(self, blocks):
        for block in reversed(blocks):  # the last one is evicted first
            self.order.pop(block, None)
            self.order[block] = True

    def match(self, token_ids):
        return self._look(token_ids)

    def insert(self, name, token_ids):
        found = self._look(token_ids)
        wanted = len(token_ids) // self.size - len(found)
        spare = [block for block in self.key_of if not self.references[block] and block not in found]
        if wanted > len(self.empty) + len(spare):
            raise MemoryError
        mine = self.held.get(name, [])
        self.references.update(found[len(mine) :])
        self.evict(wanted - len(self.empty))
        blocks = list(found)
        while len(blocks) < len(token_ids) // self.size:
            block, start = min(self.empty), len(blocks) * self.size
            self.empty.remove(block)
            before = blocks[-1] if blocks else None
            self.key_of[block] = before, tuple(token_ids[start : start + self.size])
            self.table[self.key_of[block]] = block
            self.followers[before] += 1
            self.references[block] += 1
            blocks.append(block)
        self._use(blocks)
        self.held[name] = blocks
        return list(blocks), len(found)

    def release(self, name):
        blocks = self.held.pop(name)
        self._use(blocks)
        self.references.subtract(blocks)

    def evict(self, count):
        gone = []
        if count > 0:
            for block in list(self.order):
                if len(gone) == count:
                    break
                if not self.references[block] and not self.followers[block]:
                    del self.order[block]
                    before, _ = key = self.key_of.pop(block)
                    del self.table[key]
                    self.followers[before] -= 1
                    self.empty.add(block)
                    gone.append(block)
        return gone

    def free_blocks(self):
        return len(self.empty)


class TwoPools:
    def __init__(self, prompt_caches, decode_caches, block_size, max_running):
        self.prompt_caches, self.decode_caches = prompt_caches, decode_caches
        self.S, self.most = block_size, max_running
        self.requests = {}  # name: [stage, worker, token ids], in the order in which they entered their stage

    def add(self, name, token_ids):
        self.requests[name] = ["waits", None, tuple(token_ids)]

    def _in(self, stage):
        return [name for name, record in self.requests.items() if record[0] == stage]

    def _change(self, name, stage, worker):
        _, _, token_ids = self.requests.pop(name)
        self.requests[name] = [stage, worker, token_ids]

    def _put(self, name, caches, load, limit):
        token_ids = self.requests[name][2]
        ranking = sorted(
            (-len(cache.match(token_ids)), load[worker], worker, cache)
            for worker, cache in enumerate(caches)
            if load[worker] < limit
        )
        for *_, worker, cache in ranking:
            try:
                return worker, cache.insert(name, token_ids)[1] * self.S
            except MemoryError:
                pass

    def _load(self, stage):
        return Counter(self.requests[name][1] for name in self._in(stage))

    def schedule(self):
        prompts, moves = [], []
        for name in self._in("computed"):
            found = self._put(name, self.decode_caches, self._load("decodes"), self.most)
            if not found:
                break
            source = self.requests[name][1]
            self.prompt_caches[source].release(name)
            moves.insert(0, (name, source, found[0], len(self.requests[name][2]) - found[1]))
            self._change(name, "decodes", found[0])
        for name in self._in("waits"):
            found = self._put(name, self.prompt_caches, self._load("computes"), 1)
            if not found:
                break
            self._change(name, "computes", found[0])
            prompts.insert(0, (name, found[0], min(found[1], len(self.requests[name][2]) - 1)))
        return prompts, moves

    def computed(self, name):
        self._change(name, "computed", self.requests[name][1])

    def finish(self, name, token_ids):
        cache = self.decode_caches[self.requests.pop(name)[1]]
        with contextlib.suppress(MemoryError):
            cache.insert(name, token_ids)
        cache.release(name)
