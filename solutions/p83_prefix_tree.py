"""Problem 83, reference: a prefix tree of cached blocks, and a scheduler of two pools."""

import contextlib
import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A cached block: its place in the tree, how many sequences use it, and when it was used last."""

    block: int
    tokens: tuple[int, ...]
    parent: "Node | None"
    children: dict[tuple[int, ...], "Node"] = field(default_factory=dict)
    users: int = 0
    used: int = 0

    def is_idle_leaf(self) -> bool:
        """Whether it can be evicted."""
        return not self.users and not self.children


class RadixCache:
    """Full blocks in a tree, whose edges are the tokens of a block (Zheng et al. 2023, RadixAttention)."""

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.free = list(range(num_blocks))  # a heap
        self.root = Node(-1, (), None)
        self.nodes: dict[int, Node] = {}
        self.paths: dict[str, list[Node]] = {}
        self.clock = 0

    def match(self, token_ids: Sequence[int]) -> list[int]:
        """Only looks."""
        return [node.block for node in self.find(self.keys(token_ids))]

    def insert(self, name: str, token_ids: Sequence[int]) -> tuple[list[int], int]:
        """The blocks that are there are in use before others are evicted, so no eviction takes them."""
        keys = self.keys(token_ids)
        path = self.find(keys)
        cached, missing = len(path), len(keys) - len(path)
        idle = sum(not node.users for node in self.nodes.values()) - sum(not node.users for node in path)
        if missing > len(self.free) + idle:
            raise MemoryError(f"{missing} blocks are needed, {len(self.free)} are free and {idle} can be evicted")
        self.hold(name, path)
        self.evict(missing - len(self.free))
        for tokens in keys[cached:]:
            parent = path[-1] if path else self.root
            node = Node(heapq.heappop(self.free), tokens, parent)
            parent.children[tokens] = self.nodes[node.block] = node
            path.append(node)
        self.hold(name, path)
        return [node.block for node in path], cached

    def release(self, name: str) -> None:
        """One user less for each block, which stays cached."""
        self.touch(self.paths[name])
        for node in self.paths.pop(name):
            node.users -= 1

    def evict(self, count: int) -> list[int]:
        """Leaves first, and a parent when its last child is gone."""
        leaves = [(node.used, node.block) for node in self.nodes.values() if node.is_idle_leaf()] if count > 0 else []
        heapq.heapify(leaves)
        evicted: list[int] = []
        while leaves and len(evicted) < count:
            node = self.nodes.pop(heapq.heappop(leaves)[1])
            heapq.heappush(self.free, node.block)
            evicted.append(node.block)
            assert node.parent is not None
            del node.parent.children[node.tokens]
            if node.parent is not self.root and node.parent.is_idle_leaf():
                heapq.heappush(leaves, (node.parent.used, node.parent.block))
        return evicted

    def free_blocks(self) -> int:
        """The blocks that hold nothing."""
        return len(self.free)

    def keys(self, token_ids: Sequence[int]) -> list[tuple[int, ...]]:
        """The tokens of each full block."""
        S = self.block_size
        return [tuple(token_ids[start : start + S]) for start in range(0, len(token_ids) - S + 1, S)]

    def find(self, keys: list[tuple[int, ...]]) -> list[Node]:
        """The cached blocks of the longest prefix."""
        node, path = self.root, []
        for tokens in keys:
            if tokens not in node.children:
                break
            node = node.children[tokens]
            path.append(node)
        return path

    def hold(self, name: str, path: list[Node]) -> None:
        """One user more for each block that the sequence did not use before."""
        for node in path[len(self.paths.get(name, [])) :]:
            node.users += 1
        self.paths[name] = list(path)
        self.touch(path)

    def touch(self, path: list[Node]) -> None:
        """A use, later than all before."""
        self.clock += 1
        for node in path:
            node.used = self.clock


class TwoPools:
    """Which worker computes which prompt, and where its cache goes (Zhong et al. 2024, DistServe; Qin et al. 2024,
    Mooncake)."""

    def __init__(
        self, prompt_caches: list[RadixCache], decode_caches: list[RadixCache], block_size: int, max_running: int
    ):
        self.prompt_caches, self.decode_caches = prompt_caches, decode_caches
        self.block_size, self.max_running = block_size, max_running
        self.token_ids: dict[str, list[int]] = {}
        self.waiting: deque[str] = deque()
        self.computing: dict[str, int] = {}
        self.ready: deque[tuple[str, int]] = deque()
        self.decoding: dict[str, int] = {}

    def add(self, name: str, token_ids: list[int]) -> None:
        """The last place in the queue."""
        self.token_ids[name] = list(token_ids)
        self.waiting.append(name)

    def schedule(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int, int]]]:
        """Moves first, because they leave blocks that a prompt may need."""
        moves = []
        while self.ready and (target := self.send(*self.ready[0])):
            moves.append((*self.ready.popleft(), *target))
        prompts = []
        while self.waiting and (worker := self.begin(self.waiting[0])):
            prompts.append((self.waiting.popleft(), *worker))
        return prompts, moves

    def computed(self, name: str) -> None:
        """Its worker is idle, but the cache stays in use until it has moved."""
        self.ready.append((name, self.computing.pop(name)))

    def finish(self, name: str, token_ids: list[int]) -> None:
        """The answer is cached, too, if there is room."""
        cache = self.decode_caches[self.decoding.pop(name)]
        with contextlib.suppress(MemoryError):  # then only the prompt is cached
            cache.insert(name, token_ids)
        cache.release(name)
        del self.token_ids[name]

    def send(self, name: str, source: int) -> tuple[int, int] | None:
        """The worker that decodes, and the number of tokens that it lacks. None if there is no room."""
        running = [list(self.decoding.values()).count(worker) for worker in range(len(self.decode_caches))]
        open_workers = [worker for worker, count in enumerate(running) if count < self.max_running]
        placed = self.place(name, self.decode_caches, sorted(open_workers, key=lambda worker: running[worker]))
        if placed is None:
            return None
        target, cached = placed
        self.decoding[name] = target
        self.prompt_caches[source].release(name)
        return target, len(self.token_ids[name]) - cached

    def begin(self, name: str) -> tuple[int, int] | None:
        """The worker that computes a prompt, and the first position to compute: at least the last token, whose logits
        give the first token of the answer."""
        idle = [worker for worker in range(len(self.prompt_caches)) if worker not in self.computing.values()]
        placed = self.place(name, self.prompt_caches, idle)
        if placed is None:
            return None
        self.computing[name], cached = placed
        return self.computing[name], min(cached, len(self.token_ids[name]) - 1)

    def place(self, name: str, caches: list[RadixCache], workers: list[int]) -> tuple[int, int] | None:
        """The first of these workers with room, those with the longest cached prefix first, and the number of cached
        tokens."""
        token_ids = self.token_ids[name]
        for worker in sorted(workers, key=lambda worker: -len(caches[worker].match(token_ids))):
            try:
                _, cached = caches[worker].insert(name, token_ids)
            except MemoryError:
                continue
            return worker, cached * self.block_size
        return None
