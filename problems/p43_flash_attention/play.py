"""Problem 43, played: the memory of the learner's attention in blocks, and what the trained model tells with it."""

from grader.exhibits import Line, Lines
from harness.model.attention import causal_attention
from problems.stage import model, telling
from problems.stage.programs import floats, temporary_bytes

BLOCK, K = 32, 24
LENGTHS = (128, 512, 2048)


def play(module):
    """Memory over length, then a story."""

    def yours(q, k, v):
        return module.flash_attention(q, k, v, BLOCK)

    def plain(q, k, v):
        return causal_attention(*(x[None, :, None] for x in (q, k, v)))[0, :, 0]

    lines = []
    for name, attend in (("your blocks", yours), ("plain attention", plain)):
        needs = [temporary_bytes(attend, *[floats(T, K)] * 3) for T in LENGTHS]
        lines.append(Line(name, LENGTHS, needs))
    yours_, plain_ = (line.y[-1] for line in lines)
    yield Lines(
        "Memory for one head",
        tuple(lines),
        f"At {LENGTHS[-1]:,} tokens, plain attention needs {plain_ / 2**20:.0f} MiB for the scores and your "
        f"blocks {yours_ / 2**10:,.0f} KiB. A model "
        "has many heads, layers and stories, and every one of them needs as much in training.",
        x="tokens",
        y="bytes",
        log=True,
    )
    told = telling.tell(model.gpt(make_block=model.attending(yours)), tokens=45)
    yield telling.story(told, "A story by the trained model, with your attention in every head", telling.judged(told))
