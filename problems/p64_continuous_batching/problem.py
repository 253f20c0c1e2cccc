"""Problem 64: continuous batching, by a scheduler, an attention over a mixed batch, and the loop of a server."""

import ast
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

SCHEDULER, ATTENTION, SERVE = "Scheduler", "batched_attention", "serve"
NAMES = ("a", "b", "c", "d", "e", "f")
GARBAGE = (float("nan"), float("inf"), float("-inf"))
V, END = 50, 13  # the vocabulary of the model whose texts are compared, and its end token

# A request of a simulated server: the step of its arrival, its name, the lengths of its prompt and its answer, and the
# step in which its user gives up, or -1.
Requests = Sequence[tuple[int, str, int, int, int]]
FIRST: Mapping[str, Requests] = {
    "queue": ((0, "a", 3, 1, -1), (0, "b", 2, 2, -1), (0, "c", 4, 1, -1), (1, "d", 2, 2, -1), (1, "e", 1, 3, -1)),
    "chunks": ((0, "a", 17, 1, -1), (0, "b", 5, 1, -1), (2, "c", 8, 2, -1)),
    "beside": ((0, "a", 2, 9, -1), (0, "b", 3, 8, -1), (2, "c", 19, 3, -1), (3, "d", 2, 2, -1)),
    "evicted": ((0, "a", 5, 12, -1), (0, "b", 4, 10, -1), (0, "c", 5, 6, -1), (1, "d", 11, 3, -1), (2, "e", 1, 3, -1)),
    "given up": ((0, "a", 8, 9, 4), (0, "b", 6, 6, -1), (1, "c", 9, 5, 3), (1, "d", 7, 4, -1), (2, "e", 3, 3, -1)),
}


def simulated(group: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The requests of a group, each a little longer or not, in a server of these sizes. With `random`, others."""
    requests = []
    names = rng.permutation(NAMES[: sizes["requests"]]).tolist() if group == "random" else NAMES
    for number, name in enumerate(names):
        if group == "random":
            prompt = int(rng.integers(1, 10))
            given_up = int(rng.integers(8, 20)) if rng.random() < 0.2 else -1
            requests.append((int(rng.integers(0, 8)), name, prompt, int(rng.integers(1, 9)), given_up))
        elif number < len(FIRST[group]):
            arrival, name, prompt, answer, given_up = FIRST[group][number]
            requests.append(
                (arrival, name, prompt + int(rng.integers(0, sizes.get("longer", 0) + 1)), answer, given_up)
            )
    requests.sort(key=lambda request: request[0])
    return {
        "num_blocks": sizes["B"],
        "block_size": sizes["S"],
        "token_budget": sizes["budget"],
        "max_running": sizes["running"],
        "requests": repr(requests),
        "steps": sizes["steps"],
    }


def batch(garbage: bool, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A chunk of a prompt, tokens of three answers, and places that nobody uses, in any order. With `garbage`, what no
    token may see is NaN or infinite: rows of other sequences, and places after a token's own."""
    import numpy as np

    R, L, H, K = (sizes[name] for name in "RLHK")
    _, *others, chunked = rng.permutation(R).tolist()  # one row is free
    start, count = int(rng.integers(1, 3)), sizes["chunk"]
    pairs = [(chunked, start + place) for place in range(count)]
    pairs += [(row, int(rng.integers(1, L - 1))) for row in others[:-1]] + [(others[-1], 0)]
    pairs += [(-1, 0)] * sizes["unused"]
    rows, positions = np.array([pairs[place] for place in rng.permutation(len(pairs))]).T
    q, k, v = rng.standard_normal((3, len(pairs), H, K))
    keys, values = rng.standard_normal((2, R, L, H, K))
    if garbage:
        for row in range(R):
            known = start if row == chunked else dict(pairs).get(row, 0)
            keys[row, known:], values[row, known:] = rng.choice(GARBAGE, (2, L - known, H, K))
        for array in (q, k, v):
            array[rows < 0] = rng.choice(GARBAGE, (sizes["unused"], H, K))
    floats = {"q": 2 * q, "k": k, "v": v, "keys": keys, "values": values}
    return {
        **{name: array.astype("float32") for name, array in floats.items()},
        "rows": rows.astype("int32"),
        "positions": positions.astype("int32"),
    }


def one_token(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One token of one sequence, in a cache of one row, with one head of one number."""
    import numpy as np

    q, k, v = rng.standard_normal((3, 1, 1, 1)).astype("float32")
    keys, values = rng.standard_normal((2, 1, sizes["L"], 1, 1)).astype("float32")
    rows, positions = np.zeros(1, "int32"), np.array([sizes["L"] - 1], "int32")
    return {"q": q, "k": k, "v": v, "keys": keys, "values": values, "rows": rows, "positions": positions}


def drawn(salt: int, token_ids: Sequence[int]) -> int:
    """The token that the model of a case draws after these. Nobody without its salt can tell."""
    digest = hashlib.sha256(f"{salt}: {list(token_ids)}".encode()).digest()
    return digest[0] % V if digest[1] % 11 else END


def answer(salt: int, prompt: Sequence[int], most: int) -> list[int]:
    """What that model answers."""
    token_ids = list(prompt)
    while len(token_ids) < len(prompt) + most and (token_id := drawn(salt, token_ids)) != END:
        token_ids.append(token_id)
    return token_ids[len(prompt) :]


def served(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Prompts with the steps of their arrival and the maximal lengths of their answers. The last one may come late, and
    one answer ends at once."""
    import numpy as np

    arrivals = [*[0, 0, 0, 1, 2, 3][: sizes["requests"] - 1], sizes["late"]]
    requests = [
        (arrival, name, rng.integers(0, V, rng.integers(1, sizes["longest"] + 1)).tolist(), int(rng.integers(1, 9)))
        for arrival, name in zip(arrivals, rng.permutation(NAMES[: len(arrivals)]).tolist(), strict=True)
    ]
    requests[1] = (*requests[1][:3], 1)
    answers: list[list[int]] = []
    while [] not in answers or not any(0 in answer[:-1] for answer in answers):  # one is empty, one has 0 in it
        salt = int(rng.integers(1, 1 << 30))
        answers = [answer(salt, prompt, most) for _, _, prompt, most in requests]
    return {
        "num_blocks": sizes["B"],
        "block_size": 3,
        "token_budget": sizes["budget"],
        "max_running": 3,
        "requests": repr(requests),
        "salt": np.array([salt], "int32"),  # an array, so that only the model knows it
    }


def step_in_words(case: Case, difference: Difference) -> str:
    """A sentence on what is wrong in a step of a simulated server."""
    step = difference.index[0]
    if difference.path.endswith("free"):
        return f"at the end of step {step}, {difference.got} blocks are free; expected {difference.expected}"
    name, of_start = NAMES[difference.index[1]], difference.index[2] == 0
    said = "starts {1!r} at position {0}" if of_start else "computes {0} tokens of {1!r}"
    got, expected = (
        f"has no work for {name!r}" if each == "-1" else said.format(each, name)
        for each in (difference.got, difference.expected)
    )
    return f"in step {step}, `schedule()` {got}; expected: it {expected}"


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The requests of a simulated server in words."""
    requests = [
        f"step {arrival}: {name!r}, prompt of {prompt}, answer of {answer}"
        + (f", given up in step {given_up}" if given_up >= 0 else "")
        for arrival, name, prompt, answer, given_up in ast.literal_eval(values["requests"])
    ]
    inputs = {name: value for name, value in values.items() if name not in ("requests", "steps")}
    return {**inputs, "numbers of tokens": "; ".join(requests)}


def without_salt(values: Mapping[str, Any]) -> dict[str, Any]:
    """The requests as they are passed to `serve`."""
    return {name: value for name, value in values.items() if name != "salt"}


def text_in_words(case: Case, difference: Difference) -> str:
    """A sentence on an answer of the server, or on its batches."""
    if difference.path == "served.answers":
        name, place = NAMES[difference.index[0]], difference.index[1]
        got, expected = ("nothing" if each == "-1" else each for each in (difference.got, difference.expected))
        return f"token {place} of the answer to {name!r} is {got}, expected {expected}"
    if difference.path == "served.batches":
        call, name = difference.index[0], NAMES[difference.index[1]]
        said = "starts {1!r} at position {0}" if difference.index[2] == 0 else "gets {0} tokens of {1!r}"
        got, expected = (
            f"has no work for {name!r}" if each == "-1" else said.format(each, name)
            for each in (difference.got, difference.expected)
        )
        return f"call {call} of `run`, counted from 0, {got}; expected: it {expected}"
    if difference.path == "served.answered":
        name = NAMES[difference.index[0]]
        return (
            f"the answers have no entry for {name!r}; every request has one, also if its answer is empty"
            if difference.expected == "1"
            else f"the answers have an entry for {name!r}, which no request names"
        )
    what = "is called" if difference.path.endswith("calls") else "is given"
    unit = "times" if difference.path.endswith("calls") else "tokens"
    return f"`run` {what} {difference.got} {unit} in all, expected {difference.expected}"


def scheduling(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(
        name, points, "scheduling", "steps", cases=cases, in_words=step_in_words, calls=(SCHEDULER,), **more
    )  # fmt: skip


SERVED: Mapping[str, Any] = {"in_words": text_in_words, "calls": (SERVE, SCHEDULER), "partner": "model"}
ROOM = {"B": (40,), "S": (4,), "running": (3,), "steps": (14,), "longer": (1, 2)}
BATCH = {"R": (5, 6), "L": (11,), "H": (2,), "K": (3,), "chunk": (3, 2), "unused": (1, 2)}

PROBLEM = Problem(
    title="Continuous batching",
    minutes=280,
    builds_on=(30, 63),
    without={"steps": "nothing is computed from the number of a step of a server, and a scheduler does not see it"},
    entries=(
        Entry(SCHEDULER, ("num_blocks", "block_size", "token_budget", "max_running")),
        Entry(ATTENTION, ("q", "k", "v", "keys", "values", "rows", "positions"), returns=("out", "keys", "values")),
        Entry(SERVE, ("run", "requests", "scheduler", "end_id")),
    ),
    cases={
        "queue": Cases(partial(simulated, "queue"), {**ROOM, "running": (2, 3), "budget": (12, 7)},
            draws=2, show=shown),
        "chunks": Cases(partial(simulated, "chunks"), {**ROOM, "budget": (5, 6)}, draws=2, show=shown),
        "beside": Cases(partial(simulated, "beside"), {**ROOM, "running": (4,), "budget": (6, 5)}, draws=2, show=shown),
        "evicted": Cases(
            partial(simulated, "evicted"),
            {"B": (9, 10), "S": (2,), "budget": (8, 6), "running": (3, 4), "steps": (60,), "longer": (0,)},
            draws=3, show=shown,
        ),
        "given up": Cases(
            partial(simulated, "given up"),
            {"B": (7,), "S": (3,), "budget": (8,), "running": (3,), "steps": (40,), "longer": (0, 1)},
            draws=2, show=shown,
        ),
        "random": Cases(
            partial(simulated, "random"),
            {"requests": (5, 6), "B": (10, 12), "S": (2, 3), "budget": (6, 8), "running": (3, 4), "steps": (60,)},
            draws=3,
            show=shown,
        ),
        "small": Cases(
            partial(simulated, "queue"),
            {"B": (5,), "S": (1,), "budget": (1,), "running": (1,), "steps": (40,), "longer": (0,)},
            draws=1, show=shown,
            covers=("one",),
        ),
        "batch": Cases(partial(batch, False), BATCH, draws=2, covers=("coprime",)),
        "one token": Cases(one_token, {"L": (4,)}, draws=1),
        "garbage": Cases(partial(batch, True), {**BATCH, "R": (5,), "chunk": (3,), "unused": (1,)}, draws=1),
        "served": Cases(
            served, {"requests": (5, 6), "longest": (9,), "late": (40,), "B": (40,), "budget": (8,)}, draws=2,
            show=without_salt,
        ),
        "scarce": Cases(
            served, {"requests": (6,), "longest": (7,), "late": (4,), "B": (8,), "budget": (5, 6)}, draws=2,
            show=without_salt,
        ),
    },
    checks=(
        scheduling("requests in a queue", 2, "queue"),
        scheduling("prompts in chunks", 2, "chunks"),
        scheduling("answers beside a long prompt", 2, "beside"),
        scheduling("no block left", 2, "evicted"),
        scheduling("one token in a step", 1, "small"),
        scheduling("users who give up", 1, "given up"),
        scheduling("random requests", 1, "random"),
        Check("attention of a mixed batch", 2, "values", {"entry": ATTENTION}, "output.out", "batch", traced=True),
        Check("cache after a step", 1, "values", {"entry": ATTENTION}, "output", "batch", traced=True),
        Check(
            "what others left", 2, "values", {"entry": ATTENTION}, "output.out", "garbage", traced=True,
            advice="What a token must not see is NaN or infinite here: the rows of other sequences, the places after "
            "its own position in its row, and q, k and v in places of the batch that nobody uses.",
        ),
        Check("attention of one token", 1, "values", {"entry": ATTENTION}, "output", "one token", traced=True),
        exact("answers", 2, "serving", "served", cases="served", **SERVED),
        exact("answers with few blocks", 1, "serving", "served", cases="scarce", **SERVED),
    ),
)  # fmt: skip
