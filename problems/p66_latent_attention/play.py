"""Problem 66, played: the cache of the learner's attention, what a small model learns with it, and steps with the
cache."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from problems.stage import small
from problems.stage.weights import POCKET, encode

TRAINS = True
D, H, LATENT, ROPE = small.D, POCKET.num_heads, 16, 8
CONTEXTS = (32, 64, 128, 192)
TEXT = "Once upon a time, there was a brave girl named Lily. She had a red ball. One day, she went to the park with"


def play(module: LearnerModule, text: str) -> Exhibits:
    """The bytes of the cache over the context, training with the layer and without, and one text in steps."""
    layer = module.construct(
        "LatentAttention", d_model=D, num_heads=H, d_latent=LATENT, d_rope=ROPE, rope_base=10_000.0
    )()
    own = small.cache_kib(layer, CONTEXTS)
    full, shared = ([2 * 4 * heads * (D // H) * context / 1024 for context in CONTEXTS] for heads in (H, 1))
    yield Lines(
        "The cache of one layer",
        tuple(
            Line(name, CONTEXTS, kib)
            for name, kib in {
                f"a head of keys for each of {H} heads": full,
                "1 head of keys for all": shared,
                f"yours, {LATENT} + {ROPE} numbers": own,
            }.items()
        ),
        f"Every head has keys and values of its own, and your cache takes {full[-1] / own[-1]:.0f} times fewer bytes "
        "than theirs."
        if own[-1] < shared[-1]
        else "Your cache is no smaller than that of shared heads: it holds more than the latent vector and the shared "
        "key.",
        x="tokens",
        y="KiB",
    )
    losses, (trained, _) = yield from small.learn({"with your attention": layer, "without it": None})
    gained = losses.lines[1].y[-1] - losses.lines[0].y[-1]
    if not np.isfinite(gained):
        yield replace(losses, caption="With your attention, the loss is not a finite number.")
        return
    yield replace(
        losses,
        caption=f"With your attention, the model loses {gained:.2f} nats less. {LATENT} numbers are enough for what a "
        "position tells to the later ones."
        if gained > 0.1
        else "Your attention brings nothing: what it hands on says little of the earlier tokens.",
    )
    x_TD = trained.into_mixer(encode(text))
    whole_TD, step = trained.mixer(x_TD), jax.jit(lambda cache, x_D: trained.mixer.decode_step(cache, x_D))
    cache, rows = trained.mixer.empty_cache(len(x_TD)), []
    for x_D in x_TD:
        out_D, cache = step(cache, x_D)
        rows.append(out_D)
    apart_T = jnp.abs(jnp.stack(rows) - whole_TD).max(axis=1)
    places = np.arange(len(x_TD))
    yield Lines(
        "The same text token by token, with your cache",
        (
            Line("size of the output", places, jnp.abs(whole_TD).max(axis=1)),
            Line("difference from all at once", places, jnp.maximum(apart_T, 1e-9)),
        ),
        "With the cache, the numbers are the same but for rounding."
        if float(apart_T.max()) < 1e-3
        else "A step with the cache gives other numbers than the whole text.",
        x="token",
        y="number",
        log=True,
    )
