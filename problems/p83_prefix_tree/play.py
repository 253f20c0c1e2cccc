"""Problem 83, played: four agents send their whole story again with each sentence, and the learner's cache has it."""

import numpy as np

from grader.authoring import BadOutputError
from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Story, Token
from problems.stage.weights import encode, token

SYSTEM = (
    "You tell stories to small children. Use short words and short sentences. Everybody is kind, and what is lost is "
    "found again."
)
STORIES = {
    "Lily": "Lily went to the park with her mom.|She had a red ball, and she loved it very much.|The ball rolled "
    "into the big bush.|Lily looked and looked, and a little bird showed her the way.|She was happy and thanked the "
    "bird.|Mom said it was time to go home.",
    "Tom": "Tom had a blue car that could go very fast.|One day he took it to the beach.|A big wave came and took "
    "the car away.|Tom was sad, but his friend Sam saw something blue in the sand.|They dug and dug.|It was the car!",
    "Mia": "Mia lived near the forest with her dog Max.|Max liked to run after the leaves.|One day he ran too far, "
    "and Mia could not see him.|She called his name and waited.|Then she heard a bark behind the old tree.|Max "
    "wagged his tail.",
    "Ben": "Ben wanted to bake a cake for his grandma.|He could not find the spoon.|He looked under the table and "
    "in the box.|His sister laughed, because it was in his pocket.|They baked the cake together.|Grandma said it was "
    "the best one.",
}
LONG = "Ana had a kite, and the wind was strong. The kite flew up and up, until nobody could see it any more."
SIZE, TURNS, BLOCKS = 8, 6, 34
CAPACITIES = tuple(range(26, 63, 4))

Requests = list[tuple[str, int, list[int]]]


def _requests() -> Requests:
    """A request whose answer is long, then the agents in turn, each with all that was said so far: (agent, turn, token
    ids)."""
    system = encode(SYSTEM).tolist()
    parts = {agent: [encode(" " + part).tolist() for part in text.split("|")] for agent, text in STORIES.items()}
    return [("Ana", 0, system + encode(" " + LONG).tolist())] + [
        (agent, turn, system + [each for part in parts[agent][: turn + 1] for each in part])
        for turn in range(TURNS)
        for agent in STORIES
    ]


def _served(module: LearnerModule, requests: Requests, capacity: int) -> list[tuple[int, list[int], list[int]]]:
    """For each request, the number of tokens found, its tokens in full blocks, and what its blocks hold when it is
    released: the first one at the end, each of the others before the next one begins."""
    cache = module.RadixCache(capacity, SIZE)
    memory = np.full((capacity, SIZE), -1)
    begun: list[tuple[int, list[int], list[int]]] = []
    held: dict[int, list[int]] = {}
    for number, (_, _, ids) in enumerate(requests):
        full = ids[: len(ids) // SIZE * SIZE]
        blocks, cached = cache.insert(f"request {number}", ids)
        if len(blocks) * SIZE < len(full):
            raise BadOutputError(f"`insert` returned {len(blocks)} blocks for {len(full)} tokens in full blocks")
        for place in range(int(cached) * SIZE, len(full)):
            memory[blocks[place // SIZE], place % SIZE] = full[place]
        begun.append((int(cached) * SIZE, full, list(blocks)))
        for done in [number] * (number > 0) + [0] * (number == len(requests) - 1):
            held[done] = memory[begun[done][2]].ravel()[: len(begun[done][1])].tolist()
            cache.release(f"request {done}")
    return [(found, full, held[number]) for number, (found, full, _) in enumerate(begun)]


def play(module: LearnerModule) -> Exhibits:
    """What is found of each prompt, what the blocks hold, how the size of the cache matters, and two pools."""
    requests = _requests()
    served = _served(module, requests, BLOCKS)
    computed = [len(ids) - found for (_, _, ids), (found, _, _) in zip(requests, served, strict=True)]
    wrong = [number for number, (_, full, held) in enumerate(served) if held != full]
    agents, longest = list(STORIES), max(len(ids) for _, _, ids in requests)
    rows = tuple(tuple(computed[1 + row :: len(agents)]) for row in range(len(agents)))
    yield HeatMap(
        f"Tokens that are computed of each prompt: {BLOCKS} blocks of {SIZE} tokens, prompts of up to {longest}",
        tuple(agents),
        tuple(f"turn {turn + 1}" for turn in range(TURNS)),
        (Plane(rows, texts=tuple(tuple(map(str, row)) for row in rows)),),
        f"{len(wrong)} of {len(requests)} prompts had blocks that hold tokens of somebody else when they were released."
        if wrong
        else "The system prompt is in the cache, because Ana, whose answer is long, sent it before. From turn 2 on, "
        "each agent finds its own story, too. When the blocks no longer suffice, some stories are computed again, and "
        "Ana's blocks are safe."
        if 2 * sum(computed) < sum(len(ids) for _, _, ids in requests)
        else "Much is computed again, although each prompt was sent a moment ago, but for one sentence.",
        "tokens",
        0.0,
        float(longest),
    )
    number = wrong[0] if wrong else -1
    agent, turn, _ = requests[number]
    found, full, held = served[number]
    yield Story(
        f"What the blocks of {agent} hold in turn {turn + 1}",
        tuple(
            Token(token(each) if each >= 0 else " … ", None, (0 if place < found else 1) if each == right else 2)
            for place, (each, right) in enumerate(zip(held, full, strict=True))
        ),
        "Some of it is what somebody else said: a block was shared that differs, or it was evicted while it was in use."
        if wrong
        else "What is found is exactly what was said before. The rest is computed.",
        kinds=("found", "computed", "of somebody else"),
    )
    yield _sizes(module, requests)
    yield _pools(module, requests)


def _sizes(module: LearnerModule, requests: Requests) -> Lines:
    """What is found in caches of several sizes."""
    total = sum(len(ids) for _, _, ids in requests)
    found = [100 * sum(each for each, _, _ in _served(module, requests, capacity)) / total for capacity in CAPACITIES]
    return Lines(
        "Part of all tokens that is found, by the size of the cache",
        (Line("your cache", CAPACITIES, found),),
        "With room for all stories, all is found that was sent before. A smaller cache evicts a story just before it "
        "is asked for again: the agents take turns, so the one that was used the longest ago is the next."
        if found[-1] > found[0] + 10
        else "A larger cache should find more.",
        "blocks",
        "percent",
    )


def _pools(module: LearnerModule, requests: Requests) -> Bars:
    """Tokens that two pools compute and send."""
    caches = [module.RadixCache(3 * BLOCKS, SIZE) for _ in range(4)]
    pools = module.TwoPools(caches[:2], caches[2:], SIZE, 2)
    texts = {f"{agent} {turn}": ids for agent, turn, ids in requests[1:]}
    total, computed, sent = sum(map(len, texts.values())), 0, 0
    for turn in range(TURNS):
        names = [f"{agent} {turn}" for agent in STORIES]
        for name in names:
            pools.add(name, texts[name])
        for _ in range(3 * len(names)):
            prompts, moves = pools.schedule()
            computed += sum(len(texts[name]) - start for name, _, start in prompts)
            sent += sum(number for *_, number in moves)
            for name, *_ in prompts:
                pools.computed(name)
            for name, *_ in moves:
                pools.finish(name, texts[name])
    lost = sum(3 * BLOCKS - cache.free_blocks() - len(cache.evict(3 * BLOCKS)) for cache in caches)
    return Bars(
        "Two prompt workers and two decode workers, for the same requests",
        (Bar("tokens of all prompts", total), Bar("computed", computed), Bar("sent to a decode worker", sent)),
        "tokens",
        f"{lost} blocks are still in use when all is done, so they are lost: a cache that has moved, or a sequence "
        "that has ended, still counts."
        if lost
        else "All prompts are computed again, or sent again, although most of each is there."
        if max(computed, sent) > total / 2
        else "Each prompt goes where its beginning is, so little is computed and little is sent. Both pools begin with "
        "nothing, so each worker gets the system prompt once.",
    )
