"""Problem 43, played: the memory of the learner's attention in blocks, and what the trained model tells with it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from harness.model.attention import causal_attention
from problems.stage import model, telling
from problems.stage.programs import compiled, floats, seconds

BLOCK, K = 32, 24
LENGTHS = (128, 512, 2048)
OPENING = "Once there was a clever"


def play(module: LearnerModule) -> Exhibits:
    """Memory and time over length, then a story."""

    def yours(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return module.flash_attention(q, k, v, BLOCK)

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        q, k, v = (x[None, :, None] for x in (q, k, v))
        return causal_attention(q, k, v)[0, :, 0]

    memory, times = [], []
    for name, attend in (("your blocks", yours), ("plain attention", plain)):
        programs = [compiled(attend, *[floats(T, K)] * 3) for T in LENGTHS]
        memory.append(Line(name, LENGTHS, [each.memory_analysis().temp_size_in_bytes for each in programs]))
        times.append(Line(name, LENGTHS, [milliseconds(each, T) for each, T in zip(programs, LENGTHS, strict=True)]))
    yours_, plain_ = (line.y[-1] for line in memory)
    yield Lines(
        "Memory for one head",
        tuple(memory),
        f"At {LENGTHS[-1]:,} tokens, plain attention needs {plain_ / 2**20:.0f} MiB for the scores, and your function "
        f"{yours_ / 2**10:,.0f} KiB. A model has many heads, layers and stories, and every one of them needs as much "
        "in training."
        if yours_ < plain_ / 8
        else f"At {LENGTHS[-1]:,} tokens, your function needs {yours_ / 2**20:.1f} MiB where plain attention needs "
        f"{plain_ / 2**20:.1f} MiB: it holds scores of many blocks at once.",
        x="tokens",
        y="bytes",
        log=True,
    )
    longer = times[0].y[-1] / times[1].y[-1]
    yield Lines(
        "Time for one head, on this machine",
        tuple(times),
        f"At {LENGTHS[-1]:,} tokens, your function takes {longer:.1f} times as long as plain attention. On a CPU, "
        "memory is near and a loop costs time of its own. An accelerator computes far faster than it can read scores "
        "from its memory, so there blocks in a kernel are the faster way.",
        x="tokens",
        y="milliseconds",
        log=True,
        timed=True,
    )
    told = telling.tell(model.gpt(make_block=model.attending(yours)), tokens=45, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your attention in every head",
        telling.judged(told, "Block by block, your function gives what all scores at once give.", model.gpt()),
    )


def milliseconds(program: Callable[..., Any], T: int) -> float:
    """How long the program needs for one head of T tokens."""
    x_TK = jnp.ones((T, K))
    return 1000 * seconds(lambda: program(x_TK, x_TK, x_TK), repeats=5)
