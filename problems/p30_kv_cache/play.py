"""Problem 30, played: what the learner's cache saves, and the story that it tells."""

import jax
import jax.numpy as jnp
from flax import nnx

from grader.authoring import ToyGPT
from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Story, Token
from harness.model.sampling import Sampling
from problems.stage import telling
from problems.stage.model import gpt, jitted
from problems.stage.programs import seconds
from problems.stage.weights import POCKET, PROMPT, build, encode, token

LENGTHS = (24, 96, 192)
TOKENS = 50


def play(module: LearnerModule) -> Exhibits:
    """Tokens per second over the length of the story, then a story told token by token."""
    model = build(lambda: ToyGPT(**POCKET.shape, context=POCKET.max_T), POCKET.arrays, "MiniGPT")
    graph, state = nnx.split(model)
    step = jax.jit(lambda state, cache, token_id: module.decode_step(nnx.merge(graph, state), cache, token_id))
    again = jitted(gpt())
    cached, rerun = [], []
    for length in LENGTHS:
        cache = module.empty_cache(model, length)
        cached.append(1 / seconds(lambda: step(state, cache, jnp.int32(1))))  # noqa: B023  called at once
        rerun.append(1 / seconds(lambda: again(jnp.zeros(length, jnp.int32))))  # noqa: B023
    yield Lines(
        "How fast the story grows",
        (Line("your cache", LENGTHS, cached), Line("running the whole story again", LENGTHS, rerun)),
        f"At {LENGTHS[-1]} tokens, the next one comes {cached[-1] / rerun[-1]:.1f} times as fast with your cache: it "
        "computes one position and reads the others from its rows. Without it, the whole story is computed again for "
        "every token.",
        x="tokens in the story",
        y="tokens per second",
        log=True,
        timed=True,
    )
    cache, ids = module.empty_cache(model, LENGTHS[-1]), encode(PROMPT).tolist()
    given = len(ids)
    for place in range(given + TOKENS - 1):
        logits_V, cache = step(state, cache, jnp.int32(ids[place]))
        if place + 1 == len(ids):
            ids.append(int(jnp.argmax(logits_V)))
    told = telling.tell(gpt(), TOKENS, Sampling(temperature=0))
    common = next((i for i, (a, b) in enumerate(zip(ids, told.ids, strict=False)) if a != b), len(ids))
    yield Story(
        "The likeliest story, token by token from your cache",
        tuple(Token(token(each)) for each in ids),
        "The same words as without a cache: it changes the time, not the story."
        if common == len(ids)
        else f"Without a cache, the story is another one from token {common + 1} on: "
        f"“{token(told.ids[common]).strip()}” comes there. What your cache holds is not what those positions were.",
        given=given,
    )
