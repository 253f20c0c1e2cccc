"""Problem 63: a paged cache, whose blocks are shared, copied on write and freed."""

import ast
from collections.abc import Mapping
from typing import Any

from grader.checks import exact, memory, output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

MANAGER, ATTENTION = "BlockManager", "paged_attention"
NAMES = ("a", "b", "c", "d", "e")
GARBAGE = (float("nan"), float("inf"), float("-inf"))


def _events(kinds: Mapping[str, float], sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Random events of these kinds, each with its weight. Only sequences that are there are forked, longer or freed."""
    live: list[str] = []
    events: list[tuple[Any, ...]] = []
    while len(events) < sizes["events"]:
        kind = str(rng.choice(list(kinds), p=[weight / sum(kinds.values()) for weight in kinds.values()]))
        new = [name for name in NAMES if name not in live]
        if kind in ("start", "fork") and (not new or (kind == "fork" and not live)):
            continue
        if kind in ("append", "free") and not live:
            continue
        if kind == "start":
            events.append((kind, new[0], int(rng.integers(0, 3 * sizes["S"] + 1))))
            live.append(new[0])
        elif kind == "fork":
            events.append((kind, str(rng.choice(live)), new[0]))
            live.append(new[0])
        else:
            name = str(rng.choice(live))
            events.append((kind, name))
            if kind == "free":
                live.remove(name)
    return {"num_blocks": sizes["B"], "block_size": sizes["S"], "events": repr(events)}


def started(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sequences that begin and end, some of whole blocks."""
    values = _events({"start": 3, "free": 2}, sizes, rng)
    first = [
        ("start", "a", 2 * sizes["S"]),
        ("start", "b", 1),
        ("start", "c", 0),
        ("free", "a"),
        ("start", "d", sizes["S"] + 1),
        ("free", "b"),
        ("free", "c"),
        ("free", "d"),
    ]
    return {**values, "events": repr(first + ast.literal_eval(values["events"]))}


def appended(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sequences that become longer, over the ends of blocks."""
    return _events({"start": 1, "append": 6, "free": 0.5}, sizes, rng)


def shared(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sequences that share a prefix, until one of them writes into the last block of it."""
    values = _events({"start": 1, "fork": 2, "append": 6}, sizes, rng)
    S = sizes["S"]
    first = [("start", "a", S + 1), ("fork", "a", "b"), ("append", "a"), ("append", "b"), ("append", "b"),
             ("fork", "b", "c"), ("fork", "c", "d"), ("append", "d"), ("append", "c"), ("append", "b"),
             *[("free", name) for name in "abcd"]]  # fmt: skip
    return {**values, "events": repr(first + ast.literal_eval(values["events"]))}


def freed(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, with sequences that end while others still use their blocks."""
    return _events({"start": 1, "fork": 2, "append": 4, "free": 1.5}, sizes, rng)


def full(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Too few blocks: for a new sequence, for the next token, and for a copy."""
    S, B = sizes["S"], sizes["B"]
    events = [("start", "a", B * S - S), ("start", "b", 2 * S), ("start", "b", S - 1), ("fork", "b", "c"),
              ("append", "c"), ("append", "b"), ("append", "a"), ("free", "c"), ("append", "b"), ("append", "b"),
              ("free", "a"), ("append", "b"), ("start", "a", B * S), ("start", "d", S)]  # fmt: skip
    return {"num_blocks": B, "block_size": S, "events": repr(events)}


def blocks(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A query, and keys and values in blocks, of which a table names a few in any order. Everything else holds other
    numbers."""
    import numpy as np

    B, S, H, K, M = (sizes[name] for name in "BSHKM")
    keys, values = 2 * rng.standard_normal((2, B, S, H, K))
    count = M - sizes["empty"]
    table = np.full(M, -1)
    table[:count] = rng.permutation(B)[:count]
    return {
        "q": rng.standard_normal((H, K)).astype("float32"),
        "key_blocks": keys.astype("float32"),
        "value_blocks": values.astype("float32"),
        "table": table.astype("int32"),
        "length": np.array(count * S - sizes["left"], "int32"),
    }


def low(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same with scores near -20,000. All numbers are multiples of 1/4, so that float32 adds up the scores
    exactly."""
    import numpy as np

    values = blocks(sizes, rng)
    q = (np.sign(values["q"]) * (np.abs(np.round(4 * values["q"])) + 1) / 4).astype("float32")
    far = np.round(4 * 20_000 * np.sqrt(sizes["K"]) * q / np.square(q).sum(axis=1, keepdims=True)) / 4
    return {**values, "q": q, "key_blocks": (np.round(values["key_blocks"] * 4) / 4 - far).astype("float32")}


def garbage(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, where everything that the sequence does not use is NaN or infinite: the blocks of others, and the end
    of the last one."""
    values = blocks(sizes, rng)
    S, length = sizes["S"], int(values["length"])
    for name in ("key_blocks", "value_blocks"):
        kept = rng.choice(GARBAGE, values[name].shape).astype("float32")
        for t in range(length):
            place = int(values["table"][t // S]), t % S
            kept[place] = values[name][place]
        values[name] = kept
    return values


def event_in_words(case: Case, difference: Difference) -> str:
    """A sentence on the state after an event."""
    leaf = difference.path.rpartition(".")[2]
    got, expected = ("none" if each == "-1" else each for each in (difference.got, difference.expected))
    event = ast.literal_eval(str(case.values["events"]))[difference.index[0]]
    call = f"`{event[0]}({', '.join(map(repr, event[1:]))})` (event {difference.index[0]})"
    if leaf == "free":
        return f"after {call}, {difference.got} blocks are free; expected {difference.expected}"
    if leaf == "raised":
        raised = {"0": "raised nothing", "1": "raised MemoryError"}
        return f"{call} {raised[got]}; expected: it {raised[expected]}"
    if leaf == "returned":
        part = ("the block", "the offset", "the source of the copy")[difference.index[1]]
        return f"{call} returned {difference.got} as {part}, expected {difference.expected}"
    name, place = NAMES[difference.index[1]], difference.index[2]
    return f"after {call}, block {place} of the table of {name!r} is {got}, expected {expected}"


def manager(name: str, points: int, cases: str) -> Check:
    return exact(name, points, "managing", "state", cases=cases, in_words=event_in_words)


COUNTS = {"B": (24,), "S": (3, 4)}
SHAPE = {"B": (11,), "S": (5, 3), "H": (3,), "K": (4,), "M": (7,)}

PROBLEM = Problem(
    title="A paged cache",
    minutes=170,
    builds_on=(30, 43),
    entries=(
        Entry(MANAGER, ("num_blocks", "block_size")),
        Entry(ATTENTION, ("q", "key_blocks", "value_blocks", "table", "length")),
    ),
    cases={
        "started": Cases(started, {**COUNTS, "events": (4, 8)}, draws=2),
        "appended": Cases(appended, {**COUNTS, "events": (10, 25)}, draws=2),
        "shared": Cases(shared, {**COUNTS, "events": (10, 25)}, draws=2),
        "freed": Cases(freed, {"B": (30,), "S": (3, 1, 2), "events": (20, 40)}, draws=3),
        "full": Cases(full, {"B": (4, 5), "S": (3, 4)}, draws=2),
        "blocks": Cases(blocks, {**SHAPE, "empty": (1,), "left": (1, 2)}, draws=1, covers=("coprime",)),
        "ones": Cases(
            blocks, {"B": (1,), "S": (1,), "H": (1,), "K": (1,), "M": (1,), "empty": (0,), "left": (0,)}, draws=1,
            covers=("one",),
        ),
        "garbage": Cases(garbage, {**SHAPE, "empty": (2,), "left": (2,)}, draws=1),
        "low": Cases(low, {**SHAPE, "empty": (1,), "left": (1, 2)}, draws=1),
        "large": Cases(
            blocks, {"B": (150, 160), "S": (8,), "H": (2,), "K": (16,), "M": (128,), "empty": (0,), "left": (3,)},
            draws=1
        ),
    },
    checks=(
        manager("tables of new sequences", 1, "started"),
        manager("tokens appended", 2, "appended"),
        manager("a shared prefix", 2, "shared"),
        manager("blocks freed", 2, "freed"),
        manager("no block left", 2, "full"),
        output(ATTENTION, points=1, name="attention over blocks", cases="blocks"),
        output(ATTENTION, points=1, name="one block, one token and one head", cases="ones"),
        output(ATTENTION, points=2, name="what the sequence does not use", cases="garbage"),
        output(ATTENTION, points=1, name="scores far below 0", cases="low"),
        memory(
            "step", points=2, probe="values", options={"entry": ATTENTION},
            advice="`key_blocks[table]` copies the whole sequence into one array, which is what the blocks avoid. Take "
            "one block at a time, with the running maximum and sum of problem 43.",
        ),
    ),
)  # fmt: skip
