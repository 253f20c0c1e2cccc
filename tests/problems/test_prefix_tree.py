"""Problem 83: the tree does what its definition says, blocks in use keep what they hold, and the play shows it."""

import json
import sys

import numpy as np
import pytest

from problems.p83_prefix_tree import problem as tree
from tests.conftest import ROOT
from tests.problems.test_plays import shown


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


class Definition:
    """The page's rules, one by one: a set of beginnings, each with its block and the time of its last use."""

    def __init__(self, num_blocks: int, block_size: int):
        self.size, self.free, self.time = block_size, set(range(num_blocks)), 0
        self.cached: dict[tuple[int, ...], list[int]] = {}  # the block, and the time
        self.users: dict[str, list[tuple[int, ...]]] = {}

    def beginnings(self, token_ids: list[int]) -> list[tuple[int, ...]]:
        return [tuple(token_ids[:end]) for end in range(1, len(token_ids) + 1) if end % self.size == 0]

    def found(self, token_ids: list[int]) -> list[tuple[int, ...]]:
        return [each for each in self.beginnings(token_ids) if each in self.cached]

    def match(self, token_ids: list[int]) -> list[int]:
        return [self.cached[each][0] for each in self.found(token_ids)]

    def in_use(self) -> set[tuple[int, ...]]:
        return {each for all_of_one in self.users.values() for each in all_of_one}

    def insert(self, name: str, token_ids: list[int]) -> tuple[list[int], int]:
        wanted, found = self.beginnings(token_ids), self.found(token_ids)
        missing = len(wanted) - len(found)
        if missing > len(self.free) + len(self.cached) - len(self.in_use() | set(found)):
            raise MemoryError
        self.users[name] = wanted
        self.evict(missing - len(self.free))
        for each in wanted[len(found) :]:
            self.cached[each] = [min(self.free), 0]
            self.free.remove(self.cached[each][0])
        self.use(name)
        return self.match(token_ids), len(found)

    def use(self, name: str) -> None:
        self.time += 1
        for each in self.users[name]:
            self.cached[each][1] = self.time

    def release(self, name: str) -> None:
        self.use(name)
        del self.users[name]

    def evict(self, count: int) -> list[int]:
        gone: list[int] = []
        while len(gone) < count:
            leaves = [
                each
                for each in self.cached.keys() - self.in_use()
                if not any(len(other) > len(each) and other[: len(each)] == each for other in self.cached)
            ]
            if not leaves:
                break
            oldest = min(leaves, key=lambda each: self.cached[each][1])
            gone.append(self.cached.pop(oldest)[0])
            self.free.add(gone[-1])
        return gone

    def free_blocks(self) -> int:
        return len(self.free)


@pytest.mark.fast
@pytest.mark.parametrize("group", ["shared", "evicted", "in use", "full", "small"])
def test_the_tree_does_what_the_page_says(group: str):
    from p83_prefix_tree import RadixCache

    family, raised = tree.PROBLEM.cases[group], 0
    for seed in range(4):
        sizes = {name: values[seed % len(values)] for name, values in family.sizes.items()} | {"events": 40}
        case = family.make(sizes, np.random.default_rng(seed))
        caches = [make(sizes["B"], sizes["S"]) for make in (RadixCache, Definition)]
        for kind, *arguments in json.loads(case["events"]):
            answers = []
            for cache in caches:
                try:
                    answers.append(getattr(cache, kind)(*arguments))
                except MemoryError:
                    answers.append("no room")
                except KeyError:
                    answers.append("not in use")  # its insert had no room
            assert answers[0] == answers[1], (kind, arguments)
            assert caches[0].free_blocks() == caches[1].free_blocks()
            raised += answers[0] == "no room"
    assert raised > 8 or group != "full"


class Watched:
    """A cache with a memory, into which each sequence writes what was not cached. Blocks in use keep it."""

    def __init__(self, cache, num_blocks: int, block_size: int):
        self.cache, self.size = cache, block_size
        self.memory = np.full((num_blocks, block_size), -1)
        self.users: dict[str, tuple[list[int], list[int]]] = {}
        self.checked = 0

    def match(self, token_ids):
        return self.cache.match(token_ids)

    def insert(self, name, token_ids):
        blocks, cached = self.cache.insert(name, token_ids)
        full = np.array(token_ids[: len(blocks) * self.size], int).reshape(-1, self.size)
        self.memory[blocks[cached:]] = full[cached:]
        self.users[name] = blocks, full.ravel().tolist()
        self.check()
        return blocks, cached

    def check(self) -> None:
        for blocks, token_ids in self.users.values():
            assert self.memory[blocks].ravel().tolist() == token_ids
            self.checked += len(blocks)

    def release(self, name):
        self.check()
        del self.users[name]
        self.cache.release(name)


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(4))
def test_two_pools_serve_everybody_and_no_block_in_use_changes(seed: int):
    """Agents resend their text in little room: every request is computed once and decoded once, on a worker that has
    its tokens, and in the end nothing is in use."""
    from p83_prefix_tree import RadixCache, TwoPools

    rng, blocks, size, most = np.random.default_rng(seed), 12, 3, 2
    caches = [Watched(RadixCache(blocks, size), blocks, size) for _ in range(4)]
    pools = TwoPools(caches[:2], caches[2:], size, most)
    texts: list[list[int]] = [[0] * 7 for _ in range(4)]
    prompts: dict[str, list[int]] = {}
    stage: dict[str, str] = {}
    worker: dict[str, int] = {}
    saved = 0
    for step in range(400):
        if step < 60 and rng.random() < 0.6:
            agent, name = int(rng.integers(4)), f"r{step}"
            texts[agent] = (texts[agent] if len(texts[agent]) < 24 else texts[agent][:6]) + rng.integers(
                0, 3, 4
            ).tolist()
            prompts[name], stage[name] = list(texts[agent]), "waiting"
            pools.add(name, prompts[name])
        for name in [name for name, at in stage.items() if at in ("computing", "decoding") and rng.random() < 0.4]:
            if stage[name] == "computing":
                pools.computed(name)
                stage[name] = "computed"
            else:
                pools.finish(name, prompts[name] + rng.integers(0, 3, int(rng.integers(1, 5))).tolist())
                stage[name] = "done"
        begun, moved = pools.schedule()
        for name, at, start in begun:
            assert stage[name] == "waiting"
            assert at not in [worker[other] for other, now in stage.items() if now == "computing"]
            assert 0 <= start < len(prompts[name])
            stage[name], worker[name] = "computing", at
            saved += start
        for name, source, target, sent in moved:
            assert stage[name] == "computed"
            assert source == worker[name]
            assert 0 <= sent <= len(prompts[name])
            stage[name], worker[name] = "decoding", target
            saved += len(prompts[name]) - sent
        for target in range(2):
            assert sum(now == "decoding" and worker[name] == target for name, now in stage.items()) <= most
    assert set(stage.values()) == {"done"}
    assert len(stage) > 20
    assert saved > 100
    for cache in caches:
        assert not cache.users
        assert cache.checked
        held = blocks - cache.cache.free_blocks()
        assert len(cache.cache.evict(blocks)) == held


@pytest.mark.thorough
def test_the_play_shows_what_is_found_and_what_is_sent(fork_server):
    computed, held, sizes, pools = shown("83", fork_server)
    assert "Ana's blocks are safe" in computed.caption
    assert "exactly what was said" in held.caption
    assert sizes.lines[0].y[-1] > sizes.lines[0].y[0] + 10
    assert "little is computed and little is sent" in pools.caption


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ("return not self.users and not self.children", "return not self.children", 0, "tokens of somebody else"),
        ("tuple(token_ids[start : start + S])", "tuple(token_ids[start : start + 1])", 1, "what somebody else said"),
        ("self.prompt_caches[source].release(name)", "pass", 3, "blocks are still in use when all is done"),
        (
            "return target, len(self.token_ids[name]) - cached",
            "return target, len(self.token_ids[name])",
            3,
            "sent again",
        ),
    ],
)
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("83", fork_server, find, replace)[exhibit].caption
