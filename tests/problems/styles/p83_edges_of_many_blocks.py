"""A radix tree as SGLang has it: an edge has many blocks, and is split where two sequences part. Locks are on edges."""

import contextlib


class Edge:
    def __init__(self, up, keys, blocks, lock, time):
        self.up, self.keys, self.blocks, self.lock, self.time = up, keys, blocks, lock, time
        self.down = {}


class RadixCache:
    def __init__(self, num_blocks, block_size):
        self.block_size, self.free, self.time = block_size, sorted(range(num_blocks)), 0
        self.root = Edge(None, [], [], 0, 0)
        self.ends = {}

    def _cut(self, token_ids):
        whole = len(token_ids) // self.block_size
        return list(zip(*[iter(token_ids[: whole * self.block_size])] * self.block_size, strict=True))

    def _walk(self, keys):
        """The edges from the root, and how many blocks of the last one are the same."""
        edge, path, place = self.root, [], 0
        while place < len(keys) and keys[place] in edge.down:
            edge = edge.down[keys[place]]
            same = 0
            while same < len(edge.keys) and place < len(keys) and edge.keys[same] == keys[place]:
                same, place = same + 1, place + 1
            path.append((edge, same))
            if same < len(edge.keys):
                break
        return path

    def _all(self):
        stack, found = [self.root], []
        while stack:
            edge = stack.pop()
            found.append(edge)
            stack.extend(edge.down.values())
        return found[1:]

    def _split(self, edge, place):
        upper = Edge(edge.up, edge.keys[:place], edge.blocks[:place], edge.lock, edge.time)
        edge.up.down[edge.keys[0]] = upper
        edge.keys, edge.blocks, edge.up = edge.keys[place:], edge.blocks[place:], upper
        upper.down[edge.keys[0]] = edge
        return upper

    def _lock(self, edge, change):
        while edge is not self.root:
            edge.lock += change
            edge = edge.up

    def _touch(self, edge):
        self.time += 1
        while edge is not self.root:
            edge.time, edge = self.time, edge.up

    def match(self, token_ids):
        return [block for edge, same in self._walk(self._cut(token_ids)) for block in edge.blocks[:same]]

    def insert(self, name, token_ids):
        keys = self._cut(token_ids)
        path = self._walk(keys)
        there = sum(same for _, same in path)
        room = len(self.free) + sum(len(edge.blocks) for edge in self._all() if not edge.lock)
        room -= sum(same for edge, same in path if not edge.lock)
        if len(keys) - there > room:
            raise MemoryError
        edge = self.root
        if path:
            edge, same = path[-1]
            if same < len(edge.keys):
                edge = self._split(edge, same)
        self._lock(edge, 1)
        if name in self.ends:
            self._lock(self.ends[name], -1)
        lacking = len(keys) - there
        self.evict(lacking - len(self.free))
        if lacking:
            blocks, self.free = self.free[:lacking], self.free[lacking:]
            new = Edge(edge, keys[there:], blocks, 1, 0)
            edge.down[keys[there]] = new
            edge = new
        self.ends[name] = edge
        self._touch(edge)
        return self.match(token_ids), there

    def release(self, name):
        edge = self.ends.pop(name)
        self._touch(edge)
        self._lock(edge, -1)

    def evict(self, count):
        gone = []
        leaves = [edge for edge in self._all() if not edge.down and not edge.lock] if count > 0 else []
        while leaves and len(gone) < count:
            oldest = min(leaves, key=lambda edge: edge.time)
            gone.append(oldest.blocks.pop())
            first = oldest.keys[0]
            oldest.keys.pop()
            if not oldest.keys:
                leaves.remove(oldest)
                up = oldest.up
                del up.down[first]
                if up is not self.root and not up.down and not up.lock:
                    leaves.append(up)
        self.free = sorted(self.free + gone)
        return gone

    def free_blocks(self):
        return len(self.free)


class TwoPools:
    def __init__(self, prompt_caches, decode_caches, block_size, max_running):
        self.prompts, self.decodes, self.S, self.limit = prompt_caches, decode_caches, block_size, max_running
        self.texts, self.queue, self.done = {}, [], []
        self.busy, self.running = [None] * len(prompt_caches), [[] for _ in decode_caches]

    def add(self, name, token_ids):
        self.texts[name] = token_ids
        self.queue.append(name)

    def schedule(self):
        moves, prompts = [], []
        while self.done:
            name, source = self.done[0]
            text = self.texts[name]
            choice = [w for w in range(len(self.decodes)) if len(self.running[w]) < self.limit]
            choice.sort(key=lambda w: (-len(self.decodes[w].match(text)), len(self.running[w]), w))
            worker, cached = self.first_with_room(self.decodes, choice, name)
            if worker is None:
                break
            self.done.pop(0)
            self.running[worker].append(name)
            self.prompts[source].release(name)
            moves.append((name, source, worker, len(text) - self.S * cached))
        while self.queue:
            name = self.queue[0]
            text = self.texts[name]
            choice = [w for w in range(len(self.prompts)) if self.busy[w] is None]
            choice.sort(key=lambda w: (-len(self.prompts[w].match(text)), w))
            worker, cached = self.first_with_room(self.prompts, choice, name)
            if worker is None:
                break
            self.queue.pop(0)
            self.busy[worker] = name
            start = self.S * cached
            prompts.append((name, worker, start - 1 if start == len(text) else start))
        return prompts, moves

    def first_with_room(self, caches, choice, name):
        for worker in choice:
            try:
                _, cached = caches[worker].insert(name, self.texts[name])
                return worker, cached
            except MemoryError:
                continue
        return None, 0

    def computed(self, name):
        worker = self.busy.index(name)
        self.busy[worker] = None
        self.done.append((name, worker))

    def finish(self, name, token_ids):
        for worker, names in enumerate(self.running):
            if name in names:
                names.remove(name)
                with contextlib.suppress(MemoryError):
                    self.decodes[worker].insert(name, token_ids)
                self.decodes[worker].release(name)
