"""Problem 29, played: what the learner's sampler makes of the trained model's next word, and its stories at four
temperatures."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Plane, Story, Token
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, PROMPT, encode, token

TEXT = "Once there was a gentle girl. Her name was Clara. She had a friend named Fred, who was a"
SHOWN = 6  # tokens of the distribution
CONTEXT, TOKENS = 64, 50
SETTINGS = {
    "temperature 1": (1.0, 0, 1.0), "temperature 0.5": (0.5, 0, 1.0), "temperature "
        "2": (2.0, 0, 1.0), "greedy": (0.0, 0, 1.0),
    "top-k 3": (1.0, 3, 1.0), "top-p 0.5": (1.0, 0, 0.5),
}  # fmt: skip
STORIES = {"0": 0.0, "0.5": 0.5, "1": 1.0, "2": 2.0}
CAPTIONS = {
    "0": "The likeliest word each time. It is the same story whenever you ask.",
    "0.5": "Mostly likely words, now and then another one.",
    "1": "As the model believes: a word with odds of one in ten comes one time in ten.",
    "2": "Unlikely words get their chance. There are many of them, and the sense is soon lost.",
}


def play(module: LearnerModule, text: str) -> Exhibits:
    """The odds of the next word under several settings, then a story at each temperature."""
    model = jitted(gpt())
    ids = encode(text or " ")[-CONTEXT:]
    logits_V = model(jnp.asarray(ids))[-1]
    best = np.argsort(-np.asarray(logits_V))[:SHOWN]
    odds = [np.asarray(module.sampling_distribution(logits_V, *setting))[best] for setting in SETTINGS.values()]
    shown = text[-40:].partition(" ")[2] if len(text) > 40 else text
    yield HeatMap(
        f"The next word after “… {shown}”, by your distribution",
        tuple(SETTINGS),
        tuple(token(each) for each in best),
        (Plane(odds, "", [[percent(each) for each in row] for row in odds]),),
        "Temperature 1 is what the model believes. Below 1 the likeliest words gain, above 1 the others do. Top-k and "
        "top-p leave out what is unlikely and share its odds among the rest.",
        "probability",
    )
    prompt = jnp.asarray(encode(PROMPT))
    for name, temperature in STORIES.items():
        drawn = module.generate(model, prompt, TOKENS, CONTEXT, END, jax.random.key(1), temperature, 0, 1.0)
        words = [*np.asarray(prompt), *np.asarray(drawn)[:TOKENS]]
        yield Story(
            f"Temperature {name}", tuple(Token(token(each)) for each in words), CAPTIONS[name], given=len(prompt)
        )


def percent(share: float) -> str:
    """A probability in a small cell."""
    return f"{share:.0%}" if share >= 0.01 or not share else "<1%"
