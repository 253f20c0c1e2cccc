"""The probes of problem 83: a prefix tree event by event, and a simulated server with two pools. Run in workers."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.authoring import BadEntryError, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p83_prefix_tree.problem import LAST, NAMES, ROUNDS, SPEED, expanded

METHODS = {
    "RadixCache": ("match", "insert", "release", "evict", "free_blocks"),
    "TwoPools": ("add", "schedule", "computed", "finish"),
}
NONE = -1


def _made(subject: Subject, name: str, *arguments: Any) -> Any:
    made = subject.call(name, *arguments)
    for method in METHODS[name]:
        if not callable(getattr(made, method, None)):
            raise BadEntryError(f"`{name}` has no method `{method}`: write it, as the page says")
    return made


@eager
def caching(subject: Subject, case: Case) -> Reading:
    """After each event: whether it raised MemoryError, how many blocks it returned, how many of them were cached, the
    last of them, and how many blocks are free. In one array, so that the first difference is that of the first event
    with one."""
    cache = _made(subject, "RadixCache", case.values["num_blocks"], case.values["block_size"])
    events = json.loads(case.values["events"])
    found = np.full((len(events), 3 + LAST + 1), NONE, np.int32)
    raised, counts, blocks, free = found[:, 0], found[:, 1:3], found[:, 3:-1], found[:, -1]
    raised[:], free[:] = 0, 0
    live: set[str] = set()
    for place, (kind, *arguments) in enumerate(events):
        if kind == "release" and arguments[0] not in live:
            continue  # it could not begin
        if kind in ("match", "insert"):
            arguments[-1] = expanded(arguments[-1])
        try:
            result = getattr(cache, kind)(*arguments)
        except MemoryError:
            raised[place] = 1
        else:
            if kind == "insert":
                live.add(arguments[0])
                if not isinstance(result, tuple | list) or len(result) != 2:
                    raise BadOutputError(
                        f"`insert` returned {described(result)}; it must return the tuple (blocks, number cached)"
                    )
                result, counts[place, 1] = result
            if kind == "release":
                live.remove(arguments[0])
            else:
                some = _blocks(result, kind, case.values["num_blocks"])
                counts[place, 0] = len(some)
                blocks[place, : len(some[-LAST:])] = some[-LAST:]
        free[place] = int(cache.free_blocks())
    return Reading({"cache.events": found})


def _blocks(result: Any, kind: str, num_blocks: int) -> list[int]:
    """The blocks that a method returned. Raises BadOutputError if it is not a list of blocks."""
    if not isinstance(result, list | tuple | np.ndarray):
        raise BadOutputError(f"`{kind}` returned {described(result)}; it must return a list of blocks")
    blocks = [int(block) for block in result]
    if any(not 0 <= block < num_blocks for block in blocks):
        raise BadOutputError(
            f"`{kind}` returned the blocks {blocks[-LAST:]}; with {num_blocks} blocks, their numbers are 0 to "
            f"{num_blocks - 1}"
        )
    return blocks


@eager
def pooling(subject: Subject, case: Case) -> Reading:
    """In each step, what `schedule` begins and moves, and the free blocks of all caches. At the end, how many blocks
    can be evicted."""
    sizes = {name: int(case.values[name]) for name in ("prompt_workers", "decode_workers", "num_blocks", "block_size")}
    made = [
        _made(subject, "RadixCache", sizes["num_blocks"], sizes["block_size"])
        for _ in range(sizes["prompt_workers"] + sizes["decode_workers"])
    ]
    prompt_caches, decode_caches = made[: sizes["prompt_workers"]], made[sizes["prompt_workers"] :]
    pools = _made(subject, "TwoPools", prompt_caches, decode_caches, sizes["block_size"], case.values["max_running"])
    requests = [
        (arrival, name, expanded(prompt), expanded(answer))
        for arrival, name, prompt, answer in json.loads(case.values["requests"])
    ]
    texts = {name: (prompt, answer) for _, name, prompt, answer in requests}
    prompts, moves = (np.full((ROUNDS, len(NAMES), parts), NONE, np.int32) for parts in (2, 3))
    free = np.zeros((ROUNDS, len(made)), np.int32)
    computing: dict[str, int] = {}  # by name, the step in which it is done
    decoding: dict[str, int] = {}
    stage = dict.fromkeys(texts, "to come")
    for step in range(ROUNDS):
        for name in sorted(name for name, end in decoding.items() if end == step):
            pools.finish(name, [*texts[name][0], *texts[name][1]])
            stage[name] = "done"
        for name in sorted(name for name, end in computing.items() if end == step):
            pools.computed(name)
            stage[name] = "computed"
        for arrival, name, prompt, _ in requests:
            if arrival == step:
                pools.add(name, prompt)
                stage[name] = "waiting"
        result = pools.schedule()
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise BadOutputError(f"`schedule` returned {described(result)}; it must return the tuple (prompts, moves)")
        for name, worker, start in _work(result[0], "prompts", "waiting", 3, stage):
            prompts[step, NAMES.index(name)] = worker, start
            computing[name] = step + max(1, -(-(len(texts[name][0]) - start) // SPEED))
            stage[name] = "computing"
        for name, *others in _work(result[1], "moves", "computed", 4, stage):
            moves[step, NAMES.index(name)] = others
            decoding[name] = step + len(texts[name][1])
            stage[name] = "decoding"
        free[step] = [int(cache.free_blocks()) for cache in made]
    idle = np.array([len(_blocks(cache.evict(10**6), "evict", sizes["num_blocks"])) for cache in made], np.int32)
    return Reading({"steps.prompts": prompts, "steps.moves": moves, "steps.free": free, "steps.idle": idle})


def _work(result: Any, what: str, wanted: str, parts: int, stage: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """One of the lists of `schedule`. Raises BadOutputError if it is not a list of tuples of that many parts, or names
    a sequence that is not in the stage `wanted`, or one twice."""
    if not isinstance(result, list | tuple):
        raise BadOutputError(f"the {what} of `schedule` are {described(result)}; they must be a list")
    work: list[tuple[Any, ...]] = []
    for each in result:
        if not isinstance(each, tuple | list) or len(each) != parts:
            raise BadOutputError(f"the {what} of `schedule` hold {described(each)}; they must hold tuples of {parts}")
        name, *numbers = each
        if stage.get(name) != wanted or any(name == other for other, *_ in work):
            raise BadOutputError(
                f"the {what} of `schedule` hold {name!r}, which is {stage.get(name, 'no request')}; it must be "
                f"{wanted}, and named once"
            )
        work.append((name, *map(int, numbers)))
    return work


PROBES = {"caching": caching, "pooling": pooling}
