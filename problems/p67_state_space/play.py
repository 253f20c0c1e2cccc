"""Problem 67, played: what the learner's layer costs, what a small model learns with it, and what it writes down."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Story, Token
from problems.stage import small
from problems.stage.weights import encode, token

TRAINS = True
D, N = small.D, 8
CONTEXTS = (16, 32, 64, 128, 256)
FEW = 4  # tokens that a caption lists
TEXT = "Once upon a time, there was a brave girl named Lily. She had a red ball. One day, she went to the park with"


def play(module: LearnerModule, text: str) -> Exhibits:
    """The sizes of the cache, two runs of training, and the tokens that change the state most."""
    layer = module.construct("SelectiveSSM", d_model=D, d_state=N)()
    own = small.cache_kib(layer, CONTEXTS)
    keys_and_values = [2 * 4 * context * D / 1024 for context in CONTEXTS]
    yield Lines(
        "The cache of one layer",
        (Line("your layer", CONTEXTS, own), Line("attention", CONTEXTS, keys_and_values)),
        "The state has the same size for a sentence and for a book. Attention keeps the keys and values of every token."
        if own[-1] == own[0]
        else "Your cache grows with the context: it holds more than the state.",
        x="tokens",
        y="KiB",
    )
    losses, (trained, _) = yield from small.learn({"with your layer": layer, "without it": None})
    gained = losses.lines[1].y[-1] - losses.lines[0].y[-1]
    if not jnp.isfinite(gained):
        yield replace(losses, caption="With your layer, the loss is not a finite number.")
        return
    yield replace(
        losses,
        caption="Without a layer that mixes positions, a model knows only the last token. With yours, it loses "
        f"{gained:.2f} nats less."
        if gained > 0.1
        else "Your layer brings nothing: what it hands on says little of the earlier tokens.",
    )
    ids_T = encode(text)
    u_TD = trained.mixer.in_proj(trained.into_mixer(ids_T))[:, :D]
    written_T = jnp.mean(jax.nn.softplus(trained.mixer.dt_proj(u_TD)), axis=1)
    above_T = written_T - jnp.min(written_T)
    order = [int(place) for place in jnp.argsort(-written_T)]
    yield Story(
        "The step size of each token, after these few steps of training",
        tuple(Token(token(each), float(size)) for each, size in zip(ids_T, above_T, strict=True)),
        "The mean over the features of softplus(`dt_proj`(u)). Largest: "
        + _listed(ids_T, written_T, order[:FEW])
        + ". Smallest: "
        + _listed(ids_T, written_T, order[-FEW:])
        + ". A larger one forgets more and writes more. Nobody told the layer which tokens matter.",
        meaning="mean step size dt, above the least",
        strongest=float(jnp.max(above_T)) or 1.0,
    )


def _listed(ids_T: np.ndarray, sizes_T: jax.Array, places: list[int]) -> str:
    """Tokens with their step sizes."""
    return ", ".join(f"“{token(ids_T[place]).strip()}” {float(sizes_T[place]):.3f}" for place in places)
