"""Problem 83: a prefix tree of cached blocks with locks and eviction, and a scheduler of two pools that uses it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

CACHE, POOLS = "RadixCache", "TwoPools"
LAST = 12  # blocks at the end of an answer, which are compared
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
ROUNDS = 60  # steps of a simulated server that are compared
SPEED = 4  # tokens of a prompt that a worker computes in a step

Tokens = list[Any]  # token ids; a pair (first, count) in it stands for that many ids in a row
Event = tuple[Any, ...]  # a method of the cache and its arguments
Request = tuple[int, str, Tokens, Tokens]  # the step of its arrival, its name, its prompt and its answer


def expanded(tokens: Sequence[Any]) -> list[int]:
    """The token ids that a case abbreviates."""
    ids: list[int] = []
    for each in tokens:
        ids += range(each[0], each[0] + each[1]) if isinstance(each, list | tuple) else [each]
    return ids


def cached(sizes: Mapping[str, int], events: Sequence[Event]) -> dict[str, Any]:
    """The inputs of a case of the cache."""
    return {"num_blocks": sizes["B"], "block_size": sizes["S"], "events": json.dumps(events)}


def _random(kinds: Mapping[str, float], sizes: Mapping[str, int], rng: Any) -> list[Event]:
    """Random events of these kinds, each with its weight. Sequences have few different tokens, so that they share
    beginnings and single blocks."""
    live: dict[str, Tokens] = {}
    known: list[Tokens] = [[]]
    events: list[Event] = []

    def longer(tokens: Tokens, most: int) -> Tokens:
        return tokens + rng.integers(0, 2, rng.integers(0, most + 1)).tolist()

    while len(events) < sizes["events"]:
        kind = str(rng.choice(list(kinds), p=[weight / sum(kinds.values()) for weight in kinds.values()]))
        base = known[int(rng.integers(len(known)))]
        tokens = longer(base[: int(rng.integers(len(base) + 1))], 2 * sizes["S"])
        if kind == "match":
            events.append((kind, tokens))
        elif kind == "evict":
            events.append((kind, int(rng.integers(1, 4))))
        elif kind == "insert" and (new := [name for name in NAMES if name not in live]):
            events.append((kind, new[0], tokens))
            live[new[0]] = tokens
            known.append(tokens)
        elif kind in ("longer", "release") and live:
            name = str(rng.choice(list(live)))
            if kind == "longer":
                live[name] = longer(live[name], sizes["S"] + 1)
                known.append(live[name])
            events.append(("insert", name, live[name]) if kind == "longer" else ("release", name))
            if kind == "release":
                del live[name]
    return events


def shared(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sequences that begin alike, in a cache with room for all. None is evicted."""
    S = sizes["S"]
    text = list(range(3 * S))
    other = [50 + token for token in text]
    events = [
        ("insert", "a", [*text, 9]), ("match", text[: 2 * S]), ("match", text[: 2 * S - 1]), ("match", text[S:]),
        ("insert", "b", text[: 2 * S] + other[:S]), ("insert", "c", other[:S] + text[S : 2 * S] + [7] * (S - 1)),
        ("match", other[:S] + text[S:]), ("match", [text[0], *other[: 2 * S]]), ("release", "a"), ("match", text),
        ("insert", "a", text[: S + 1]), ("insert", "a", text[: S + 1] + other[: 2 * S]), ("insert", "d", []),
        ("insert", "d", text[: S - 1]), ("insert", "d", [*text[: S - 1], 8, *other[:S]]),
    ]  # fmt: skip
    return cached(sizes, [*events, *_random({"insert": 3, "match": 3, "longer": 2, "release": 2}, sizes, rng)])


def evicted(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sequences that nobody uses any more, evicted one block after another."""
    S = sizes["S"]
    first, second, third = ([number] * S for number in range(3))
    events = [
        ("insert", "a", first + second), ("release", "a"), ("insert", "b", first + third + first), ("release", "b"),
        ("insert", "c", second), ("release", "c"), ("match", first + second), ("evict", 0), ("evict", -1),
        ("evict", 1), ("insert", "a", second),
        ("insert", "b", third), ("release", "b"), ("release", "a"), ("evict", 1), ("evict", 2),
        ("match", first + third), ("evict", 9), ("insert", "d", first + second), ("release", "d"), ("evict", 1),
    ]  # fmt: skip
    return cached(sizes, [*events, *_random({"insert": 4, "release": 5, "evict": 3, "match": 1}, sizes, rng)])


def in_use(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Evictions while sequences use some of the blocks, often two of them the same ones."""
    S = sizes["S"]
    first, second, third = ([number] * S for number in range(3))
    events = [
        ("insert", "a", first + second), ("insert", "b", first + second), ("insert", "c", first + third + second),
        ("release", "c"), ("release", "a"), ("evict", 1), ("evict", 9), ("match", first + second),
        ("insert", "a", first), ("insert", "a", first + second + third), ("release", "b"), ("evict", 9),
        ("release", "a"), ("evict", 9),
    ]  # fmt: skip
    kinds = {"insert": 4, "longer": 2, "release": 3, "evict": 3, "match": 1}
    return cached(sizes, [*events, *_random(kinds, sizes, rng)])


def full(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """No free block: idle ones are evicted for a new sequence, or there are too few, and then nothing may change."""
    S, B = sizes["S"], sizes["B"]
    blocks = [[number] * S for number in range(B + 2)]

    def text(*numbers: int) -> Tokens:
        return [token for number in numbers for token in blocks[number]]

    events = [
        ("insert", "a", text(*range(B - 1))), ("insert", "b", text(0, B, B + 1)), ("match", text(0, B)),
        ("release", "a"), ("insert", "c", text(0, 1, B)), ("insert", "b", text(1, *range(3, B))), ("release", "c"),
        ("insert", "d", text(0, 1)), ("insert", "d", text(0, 1, *range(3, B + 2))), ("insert", "e", text(*range(1, B))),
        ("evict", 1), ("insert", "d", text(0, 1, 3)), ("insert", "e", text(*range(2, B - 1))), ("release", "d"),
        ("insert", "f", text(*range(B))), ("release", "e"), ("insert", "f", text(*range(B))), ("release", "f"),
        ("insert", "a", text(*range(B - 1), B)), ("match", text(*range(B))), ("release", "a"), ("evict", B + 1),
        # An insert without room is no use of what is cached: the block that was used the longest ago stays the same.
        ("insert", "a", text(0)), ("release", "a"), ("insert", "b", text(1)), ("release", "b"),
        ("insert", "c", text(2, 3)), ("insert", "d", text(0, *range(3, B + 2))), ("evict", 1), ("release", "c"),
        # Of the blocks that are free and those that are evicted, the lowest are taken first.
        ("evict", B), ("insert", "a", text(0)), ("insert", "b", text(*range(1, B - 1))), ("release", "a"),
        ("insert", "a", text(B, B + 1)), ("release", "b"), ("release", "a"),
    ]  # fmt: skip
    return cached(sizes, [*events, *_random({"insert": 5, "longer": 2, "release": 4}, sizes, rng)])


def long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A sequence of many blocks, and one that leaves it in the middle."""
    S, many = sizes["S"], sizes["many"]
    whole, half = (0, many * S), (0, many // 2 * S)
    other = (10**6, S * int(rng.integers(2, 5)))
    events = [
        ("insert", "a", [whole]), ("match", [whole]), ("insert", "b", [half, other]), ("release", "a"), ("evict", 3),
        ("match", [whole]), ("insert", "c", [whole]), ("release", "b"), ("evict", 2), ("match", [half, other]),
    ]  # fmt: skip
    return cached(sizes, events)


def agents(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Agents that send their whole text again with each request, behind one long system prompt. Some begin anew, and
    some retry from an earlier point."""
    system = (0, sizes["system"])
    talks: list[list[tuple[int, int]]] = [[] for _ in range(sizes["agents"])]
    events: list[Event] = []
    running: list[tuple[str, Tokens]] = []
    fresh = 10**6
    for number in range(sizes["requests"]):
        agent, name = int(rng.integers(sizes["agents"])), f"r{number}"
        talk = talks[agent]
        draw = rng.random()
        if not talk or draw < 0.1 or sum(count for _, count in talk) > sizes["longest"]:
            talk, fresh = [(fresh, 0)], fresh + 10**4
        elif draw < 0.2 and talk[-1][1] > 1:
            talk = [*talk[:-1], (talk[-1][0], talk[-1][1] // 2), (fresh, 0)]
            fresh += 10**4
        prompt = [*talk[:-1], (talk[-1][0], talk[-1][1] + int(rng.integers(1, 60)))]
        talks[agent] = [*prompt[:-1], (prompt[-1][0], prompt[-1][1] + int(rng.integers(1, 60)))]
        events.append(("insert", name, [system, *prompt]))
        running.append((name, [system, *talks[agent]]))
        if len(running) > sizes["running"]:
            done, text = running.pop(int(rng.integers(len(running))))
            events += [("insert", done, text), ("release", done)]
    return cached(sizes, events)


def server(sizes: Mapping[str, int], requests: Sequence[Request]) -> dict[str, Any]:
    """The inputs of a case of the two pools."""
    return {
        "prompt_workers": sizes["P"],
        "decode_workers": sizes["D"],
        "num_blocks": sizes["B"],
        "block_size": sizes["S"],
        "max_running": sizes["running"],
        "requests": json.dumps(sorted(requests, key=lambda request: request[0])),
    }


def routed(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Prompts of which some begin alike, with room for all. The tokens of one block often stand in another place."""
    S = sizes["S"]
    first, second, third = ([number] * S for number in range(3))
    prompts = [first + second, third + second + [5], first + third, third + second, second, first + second + [6],
               third + second + first, [4] * (S - 1)]  # fmt: skip
    arrivals = [0, 0, 0, 5, 5, 9, 9 + int(rng.integers(0, 2)), 12]
    return server(sizes, [  # two answers are long, so their decode worker is full for a while
        (arrival, name, prompt, [30 + number] * (20 if number in (0, 2) else int(rng.integers(1, 7))))
        for number, (arrival, name, prompt) in enumerate(zip(arrivals, NAMES, prompts, strict=True))
    ])  # fmt: skip


def waiting(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Six blocks in each cache and one decode worker, so that computed caches wait for their move, prompts for blocks,
    and one answer has no room in the end."""
    S = sizes["S"]

    def text(*numbers: int) -> Tokens:
        return [number for number in numbers for _ in range(S)]

    prompts = [
        (0, text(0, 1, 2), S),
        (0, text(3, 4, 5), 4 * S + int(rng.integers(0, 3))),
        (1, text(0, 1, 6, 7), int(rng.integers(1, 2 * S))),
        (6, text(0, 1, 8, 9, 10), int(rng.integers(1, 2 * S))),  # no room where its beginning is cached
        (7, text(15), int(rng.integers(1, 4))),
        (8, text(0, *range(11, 15)), int(rng.integers(1, 2 * S))),  # no room anywhere
        (9, [*text(0, 1), 16], int(rng.integers(1, 4))),
        (20, text(0, 1, 2, 6), 1),
    ]
    return server(sizes, [
        (arrival, name, prompt, [40 + number] * answer)
        for number, (name, (arrival, prompt, answer)) in enumerate(zip(NAMES, prompts, strict=True))
    ])  # fmt: skip


def turns(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Two agents, each of whose prompts begins with its earlier prompt and answer. One prompt is sent twice."""
    S = sizes["S"]
    system = list(range(2 * S))
    texts = {agent: system + [60 + agent] * S for agent in range(2)}
    requests: list[Request] = []
    for number, name in enumerate(NAMES):
        agent = number % 2
        answer = [70 + number] * int(rng.integers(1, 2 * S + 1))
        requests.append((7 * (number // 2) + agent, name, list(texts[agent]), answer))
        if number != 1:  # its prompt, which ends with a block, is sent again
            texts[agent] = texts[agent] + answer + [80 + number] * int(rng.integers(1, S + 2))
    return server(sizes, requests)


def together(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Pairs of prompts that begin alike and are computed in the same step, so that both move at once."""
    S = sizes["S"]
    requests: list[Request] = []
    for number, name in enumerate(NAMES[:6]):
        beginning = [10 * (number // 2)] * (2 * S)
        prompt = [*beginning, *[10 * (number // 2) + 1 + number % 2] * S]
        requests.append((8 * (number // 2), name, prompt, [90 + number] * int(rng.integers(1, 6))))
    return server(sizes, requests)


def crowded(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Random prompts in little room."""
    S = sizes["S"]
    known: list[Tokens] = [[0] * (2 * S)]
    requests = []
    for name in rng.permutation(NAMES).tolist():
        base = known[int(rng.integers(len(known)))]
        prompt = base[: int(rng.integers(len(base) + 1))] + rng.integers(0, 2, rng.integers(1, S + 2)).tolist()
        prompt = prompt[: 4 * S]
        answer = rng.integers(0, 2, rng.integers(1, 7)).tolist()
        known.append(prompt + answer)
        requests.append((int(rng.integers(0, 12)), name, prompt, answer))
    return server(sizes, requests)


def call_in_words(case: Case, number: int) -> str:
    """A call of a case of the cache."""
    kind, *arguments = json.loads(case.values["events"])[number]
    ids = expanded(arguments[-1]) if kind in ("match", "insert") else []
    shown = [repr(each) for each in (arguments[:-1] if kind in ("match", "insert") else arguments)]
    if kind in ("match", "insert"):
        shown.append(repr(ids) if len(ids) <= 20 else f"[{len(ids)} token ids]")
    return f"`{kind}({', '.join(shown)})` (event {number})"


def event_in_words(case: Case, difference: Difference) -> str:
    """A sentence on the cache after an event."""
    event, column = difference.index
    got, expected = ("none" if each == "-1" else each for each in (difference.got, difference.expected))
    call = call_in_words(case, event)
    if column == 0:
        raised = {"0": "raised nothing", "1": "raised MemoryError"}
        return f"{call} {raised[got]}; expected: it {raised[expected]}"
    if column in (1, 2):
        what = ("blocks", "blocks that were cached")[column - 1]
        return f"{call} returned {got} {what}, expected {expected}"
    if column == 3 + LAST:
        return f"after {call}, {got} blocks are free; expected {expected}"
    got, expected = ("no block" if each == "none" else f"block {each}" for each in (got, expected))
    return f"{call} returned {got} at place {column - 3} of the last twelve, expected {expected}"


def step_in_words(case: Case, difference: Difference) -> str:
    """A sentence on what is wrong in a step of a simulated server."""
    leaf = difference.path.rpartition(".")[2]
    got, expected = difference.got, difference.expected
    pools = [f"prompt worker {worker}" for worker in range(case.values["prompt_workers"])]
    pools += [f"decode worker {worker}" for worker in range(case.values["decode_workers"])]
    if leaf == "idle":
        return (
            f"at the end, when nothing runs, `evict` frees {got} blocks of {pools[difference.index[0]]}; "
            f"expected {expected}"
        )
    step = difference.index[0]
    if leaf == "free":
        return f"after step {step}, {got} blocks of {pools[difference.index[1]]} are free; expected {expected}"
    what, parts = (
        ("begin", ("on prompt worker {}", "at position {}"))
        if leaf == "prompts"
        else ("move", ("from prompt worker {}", "to decode worker {}", "with {} tokens sent"))
    )
    said = [
        f"does not {what} {NAMES[difference.index[1]]!r}"
        if each == "-1"
        else f"{what}s {NAMES[difference.index[1]]!r} {parts[difference.index[2]].format(each)}"
        for each in (got, expected)
    ]
    return f"in step {step}, `schedule` {said[0]}; expected: it {said[1]}"


def events_shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The events of a case in a few words."""
    events = json.loads(values["events"])
    if len(events) > 200:
        names = len({event[1] for event in events if event[0] == "insert"})
        return {**values, "events": f"{len(events):,} events of {names:,} requests"}
    said = [
        f"{number}: {kind}({', '.join(json.dumps(each) for each in arguments)})"
        for number, (kind, *arguments) in enumerate(events)
    ]
    return {**values, "events": "; ".join(said)}


def _short(answer: Sequence[int]) -> str:
    return f"[{answer[0]}] * {len(answer)}" if len(set(answer)) == 1 < len(answer) else repr(answer)


def requests_shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The requests of a simulated server in words."""
    said = [
        f"step {arrival}: {name!r}, prompt {prompt}, answer {_short(answer)}"
        for arrival, name, prompt, answer in json.loads(values["requests"])
    ]
    return {**values, "requests": "; ".join(said), "tokens of a prompt that a worker computes in a step": SPEED}


def caching(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(name, points, "caching", "cache", cases=cases, in_words=event_in_words, calls=(CACHE,), **more)


def pooling(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(name, points, "pooling", "steps", cases=cases, in_words=step_in_words, calls=(CACHE, POOLS), **more)


def events(make: Callable[..., dict[str, Any]], draws: int = 2, **sizes: Any) -> Cases:
    """A family of cases of the cache."""
    covers = sizes.pop("covers", ())
    return Cases(make, sizes, draws=draws, show=events_shown, covers=covers)


def simulated(make: Callable[..., dict[str, Any]], draws: int = 2, **sizes: Any) -> Cases:
    """A family of cases of the two pools."""
    covers = sizes.pop("covers", ())
    return Cases(make, sizes, draws=draws, show=requests_shown, covers=covers)


PROBLEM = Problem(
    title="A prefix tree and two pools",
    minutes=300,
    builds_on=(63, 64),
    entries=(
        Entry(CACHE, ("num_blocks", "block_size")),
        Entry(POOLS, ("prompt_caches", "decode_caches", "block_size", "max_running")),
    ),
    cases={
        "shared": events(shared, B=(40,), S=(2, 3), events=(6, 12)),
        "evicted": events(evicted, B=(24,), S=(2, 3), events=(8, 16)),
        "in use": events(in_use, B=(24,), S=(2, 3), events=(10, 20)),
        "full": events(full, B=(5, 6), S=(2, 3), events=(10, 20)),
        "small": events(in_use, draws=1, B=(8,), S=(1,), events=(20,), covers=("one",)),
        "agents": events(
            agents, draws=1, B=(160,), S=(64,), system=(1024,), agents=(40,), requests=(2000,), longest=(400,),
            running=(8,),
        ),
        "long": events(long, draws=1, B=(2100,), S=(2,), many=(2000,)),
        "routed": simulated(routed, P=(2,), D=(2,), B=(30,), S=(3, 2), running=(2,)),
        "waiting": simulated(waiting, P=(2,), D=(1,), B=(6,), S=(2, 3), running=(2,)),
        "turns": simulated(turns, P=(2,), D=(2,), B=(40,), S=(3, 2), running=(2,)),
        "together": simulated(together, P=(2,), D=(2,), B=(30,), S=(2, 3), running=(4,)),
        "crowded": simulated(crowded, P=(2,), D=(2,), B=(5, 6), S=(2,), running=(2, 1), draws=3),
    },
    checks=(
        caching("shared beginnings", 2, "shared"),
        caching("evictions", 2, "evicted"),
        caching("blocks in use", 2, "in use"),
        caching("no block left", 2, "full"),
        caching("blocks of one token", 1, "small"),
        caching("two thousand requests of agents", 2, "agents"),
        caching("two thousand blocks", 1, "long"),
        pooling("where prompts and caches go", 2, "routed"),
        pooling("caches that wait for their move", 2, "waiting"),
        pooling("agents that send their text again", 2, "turns"),
        pooling("two moves in one step", 1, "together"),
        pooling("little room in both pools", 1, "crowded"),
    ),
)  # fmt: skip
