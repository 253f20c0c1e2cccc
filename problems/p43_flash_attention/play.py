"""Problem 43, played: the memory of the learner's attention in blocks, and what the trained model tells with it."""

import jax
import jax.numpy as jnp

from grader.exhibits import Line, Lines
from harness.model.attention import causal_attention
from problems.stage import attention, model, telling
from problems.stage.programs import floats, temporary_bytes

TEXT = "Lily had a red ball. Tom wanted the ball. He took it"
LAYER, BLOCK, K = 1, 32, 24
LENGTHS = (128, 512, 2048)


def play(module, text):
    """Memory over length, forward and backward; where the heads look; and a story."""

    def yours(q, k, v):
        return module.flash_attention(q, k, v, BLOCK)

    def plain(q, k, v):
        return causal_attention(*(x[None, :, None] for x in (q, k, v)))[0, :, 0]

    lines = []
    for name, attend in (("your blocks", yours), ("plain attention", plain)):
        needs = [temporary_bytes(jax.grad(lambda *x: jnp.sum(attend(*x)), (0, 1, 2)), *[floats(T, K)] * 3) for T in LENGTHS]
        lines.append(Line(name, LENGTHS, needs))
    yours_, plain_ = (line.y[-1] for line in lines)
    yield Lines(
        "Memory for one head, forward and backward",
        tuple(lines),
        f"At {LENGTHS[-1]:,} tokens, plain attention keeps {plain_ / 2**20:.0f} MiB of scores and yours {yours_ / 2**20:.1f} MiB. A model "
        "has many heads, layers and stories, and every one of them would keep as much.",
        x="tokens",
        y="bytes",
        log=True,
    )
    ids_T = attention.few(text)
    short = attention.by_function(lambda q, k, v: module.flash_attention(q, k, v, 4), ids_T, LAYER)
    yield attention.exhibit(short, ids_T, LAYER, f"Where the heads of layer {LAYER + 1} look, by your attention in blocks of 4")
    told = telling.tell(model.gpt(make_block=model.attending(yours)), tokens=60)
    yield telling.story(told, "A story by the trained model, with your attention in every head", telling.judged(told))
