"""Problem 64, played: eight people ask the trained model, and the learner's server answers them together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import BadOutputError
from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Plane, Table
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, POCKET, encode, token

BEGINNINGS = (
    "Once upon a time, there was",
    "Lily and Tom went to the park. They saw",
    "One day, a brave dog named Max found a shiny key under the bed. He",
    "The little bird",
    "Mia had a red ball. She took it to the beach every day, and she loved it very much. But when it was time to go,",
    "Tim was sad because",
    "The old owl said,",
    "Ben liked to bake. He",
)
ARRIVALS, LENGTHS = (0, 0, 0, 1, 2, 3, 8, 12), (30, 6, 9, 5, 24, 7, 28, 8)
BLOCKS, SIZE, BUDGET, RUNNING, STEPS, WINDOW = 13, 8, 16, 4, 60, 96

Log = list[dict[str, tuple[int, int]]]  # the first place and the number of tokens of each sequence, by step


def play(module: LearnerModule) -> Exhibits:
    """Which tokens each step computes, the answers beside those that each gets alone, and how many steps that takes."""
    model, prompts = jitted(gpt()), [encode(text).tolist() for text in BEGINNINGS]
    window = np.zeros(WINDOW, np.int32)

    def next_token(ids: list[int]) -> int:
        window[: len(ids)] = ids[:WINDOW]
        return int(np.asarray(model(jnp.asarray(window)))[len(ids) - 1].argmax())

    caches: dict[str, list[int]] = {}
    log: Log = []

    def run(batch: Any) -> dict[str, int]:
        if len(log) > 4 * STEPS:
            raise BadOutputError(f"`serve` has called `run` {len(log)} times for {len(prompts)} short answers")
        following = {}
        for name, start, ids in batch:
            caches[name] = [*caches.get(name, [])[:start], *map(int, ids)]
            following[name] = next_token(caches[name] or [END])
        log.append({name: (start, len(ids)) for name, start, ids in batch})
        return following

    requests = [
        (arrival, str(number), prompt, most)
        for number, (arrival, prompt, most) in enumerate(zip(ARRIVALS, prompts, LENGTHS, strict=True))
    ]
    answers = module.serve(run, requests, module.Scheduler(BLOCKS, SIZE, BUDGET, RUNNING), END)
    yield _steps(log, prompts)
    rows, alike = [], 0
    for number, (prompt, most) in enumerate(zip(prompts, LENGTHS, strict=True)):
        alone: list[int] = []
        while len(alone) < most and (not alone or alone[-1] != END):
            alone.append(next_token(prompt + alone))
        alone = [each for each in alone if each != END]
        own = [int(each) for each in answers.get(str(number), [])]
        alike += own == alone
        rows.append((_end(BEGINNINGS[number]), _begin(own), "the same" if own == alone else _begin(alone)))
    yield Table(
        "What your server answers: how each question ends, and how its answer begins",
        ("question", "answer in the batch", "alone"),
        tuple(rows),
        "Nobody's answer depends on who else asks: each is what the model says to one person alone."
        if alike == len(rows)
        else f"{len(rows) - alike} answers are not those that the model gives to one person alone.",
    )
    yield _runs(log, prompts)
    yield _neighbors(module)


def _end(text: str, most: int = 18) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]


def _begin(ids: list[int], most: int = 24) -> str:
    said = "".join(map(token, ids)).replace("\n", "⏎").strip()
    return said if len(said) <= most else said[: most - 1] + "…"


def _steps(log: Log, prompts: list[list[int]]) -> HeatMap:
    """The tokens of each step by sequence."""
    shown = log[:STEPS]
    tokens = [[step.get(str(row), (0, 0))[1] for step in shown] for row in range(len(prompts))]
    again = sum(
        len({p for place in range(len(log)) for p in range(*_span(log[place].get(str(row))))})
        < sum(step.get(str(row), (0, 0))[1] for step in log)
        for row in range(len(prompts))
    )
    most = max(sum(count for _, count in step.values()) for step in log)
    return HeatMap(
        f"The first {len(shown)} steps of your server: tokens that each sequence computes",
        tuple(f"question {row + 1}" for row in range(len(prompts))),
        tuple(str(number) for number in range(len(shown))),
        (Plane(tuple(tuple(min(count, 8) for count in row) for row in tokens)),),
        f"At most {most} tokens in a step, with a budget of {BUDGET}. Dark cells are chunks of many tokens, light ones "
        f"single tokens. {again} of {len(prompts)} sequences computed some tokens more than once, as after an "
        "eviction.",
        "tokens",
        0.0,
        8.0,
    )


def _span(chunk: tuple[int, int] | None) -> tuple[int, int]:
    return (chunk[0], chunk[0] + chunk[1]) if chunk else (0, 0)


def _runs(log: Log, prompts: list[list[int]]) -> Bars:
    """The runs of the model that all answers took, and what they would take in full batches, or one by one."""
    batches = [range(start, min(start + RUNNING, len(prompts))) for start in range(0, len(prompts), RUNNING)]
    waiting = sum(max(LENGTHS[each] for each in some) for some in batches)
    return Bars(
        "Runs of the model for all eight answers",
        (Bar("your server", len(log)), Bar("full batches of 4", waiting), Bar("one by one", sum(LENGTHS))),
        "runs",
        f"A full batch waits for its longest answer. Your server needs {waiting - len(log)} fewer runs."
        if len(log) < waiting
        else "Your server takes as long as one that waits for full batches, or longer.",
    )


def _neighbors(module: LearnerModule) -> Bars:
    """The output of a token alone, and in a batch whose other rows hold large numbers."""
    H = POCKET.num_heads
    q, k, v = 3 * jax.random.normal(jax.random.key(1), (3, 6, H, 8))
    keys, values = 30 * jax.random.normal(jax.random.key(2), (2, 4, 12, H, 8))
    rows, positions = jnp.array([2, 2, 0, 1, -1, -1]), jnp.array([0, 1, 5, 3, 0, 0])
    out, *_ = module.batched_attention(q, k, v, keys, values, rows, positions)
    alone = jax.nn.dot_product_attention(q[None, :2], k[None, :2], v[None, :2], is_causal=True)[0]
    off = float(jnp.abs(out[:2] - alone).max())
    return Bars(
        "The second token of a chunk, in a batch with three other sequences",
        tuple(
            Bar(f"head {head + 1}", jnp.linalg.norm(out[1, head]), jnp.linalg.norm(alone[1, head])) for head in range(H)
        ),
        "size of the output",
        "The same as alone: the numbers of its neighbors, ten times as large, do not get in."
        if off < 1e-3
        else f"It differs by up to {off:.2g} from what it would be alone: it sees something that is not its own.",
        names=("in the batch", "alone"),
    )
