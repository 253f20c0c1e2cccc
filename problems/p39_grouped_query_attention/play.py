"""Problem 39, played: the cache of the learner's attention in bytes, and a story by it."""

import jax

from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from problems.stage import telling
from problems.stage.model import with_attention
from problems.stage.modern import modern
from problems.stage.weights import MODERN

MODEL_TYPES = ("llama",)  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness sample {model} --pieces {workspace} --max-tokens 40"
CONTEXTS = (32, 64, 128, 192)
GROUPS = {4: "a head of keys for each of 4 heads", 2: "2 heads of keys, as trained", 1: "1 head of keys for all"}
OPENING = "Once there was a proud"


def play(module: LearnerModule) -> Exhibits:
    """The bytes of the cache over the context for several numbers of key heads, then a story."""
    sizes = {"d_model": MODERN.d_model, "num_heads": MODERN.num_heads, "rope_base": MODERN.rope_base}
    lines = []
    for heads, name in GROUPS.items():
        attention = module.construct("GQA", num_kv_heads=heads, **sizes)()
        kib = [
            MODERN.num_layers * sum(leaf.nbytes for leaf in jax.tree.leaves(attention.empty_cache(context))) / 1024
            for context in CONTEXTS
        ]
        lines.append(Line(name, CONTEXTS, kib))
    saved = lines[0].y[-1] / lines[-1].y[-1]
    yield Lines(
        f"The cache of all {MODERN.num_layers} layers, by your `empty_cache`",
        tuple(lines),
        f"One head of keys and values for all four takes {saved:.1f} times less. Every token of every conversation "
        "that a server holds needs these bytes, so they decide how many it can hold."
        if saved > 1.5
        else "The cache is as large with one head of keys as with four: it holds the heads that share them, too.",
        x="tokens",
        y="KiB",
    )
    make = module.construct("GQA", num_kv_heads=MODERN.num_kv_heads, **sizes)
    told = telling.tell(modern(make_block=with_attention(make)), tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the modern model, with your attention",
        telling.judged(told, "It is a story, although the heads share their keys and values.", modern()),
    )
