"""Problem 29, played: what the learner's sampler makes of the trained model's next word, and its stories at four temperatures."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import HeatMap, Plane, Story, Token
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, PROMPT, encode, token

TEXT = "Once there was a gentle girl. Her name was Clara. She had a friend named Fred, who was a"
SHOWN = 6  # tokens of the distribution
CONTEXT, TOKENS = 64, 50
SETTINGS = {
    "temperature 1": (1.0, 0, 1.0), "temperature 0.5": (0.5, 0, 1.0), "temperature 2": (2.0, 0, 1.0), "greedy": (0.0, 0, 1.0),
    "top-k 3": (1.0, 3, 1.0), "top-p 0.5": (1.0, 0, 0.5),
}  # fmt: skip
STORIES = {"0, the likeliest word each time": 0.0, "0.5": 0.5, "1, as the model believes": 1.0, "2": 2.0}


def play(module, text):
    """The odds of the next word under several settings, then a story at each temperature."""
    model = jitted(gpt())
    ids = encode(text or " ")[-CONTEXT:]
    logits_V = model(jnp.asarray(ids))[-1]
    best = np.argsort(-np.asarray(logits_V))[:SHOWN]
    odds = [np.asarray(module.sampling_distribution(logits_V, *setting))[best] for setting in SETTINGS.values()]
    yield HeatMap(
        f"The next word after “…{text[-40:]}”, by your distribution",
        tuple(SETTINGS),
        tuple(token(each) for each in best),
        (Plane(odds),),
        "Temperature 1 is what the model believes. Below 1 the likeliest words gain, above 1 the others do. Top-k and top-p "
        "leave out what is unlikely and share its odds among the rest.",
        "probability",
        high=max(float(np.max(odds[0])), 0.2),
    )
    prompt = jnp.asarray(encode(PROMPT))
    for name, temperature in STORIES.items():
        drawn = module.generate(model, prompt, TOKENS, CONTEXT, END, jax.random.key(1), temperature, 0, 1.0)
        words = [*np.asarray(prompt), *np.asarray(drawn)[:TOKENS]]
        yield Story(f"Temperature {name}", tuple(Token(token(each)) for each in words), given=len(prompt))
