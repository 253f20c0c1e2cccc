"""Problem 07, played: what surprises the trained model, token by token, by the learner's loss."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Story, Token
from problems.stage import telling
from problems.stage.model import gpt, jitted, loss
from problems.stage.weights import POCKET, before_training, held_out, token

PAD = 0
PADDING = 20
NEAR = 0.01  # a share of the loss


def play(module: LearnerModule) -> Exhibits:
    """The loss of each token of a story that the model has never seen, then the loss of the whole story beside other
    models'."""
    (ids_T,) = held_out(1)
    trained, untrained = gpt(), gpt(weights=before_training())
    logits_TV = jitted(trained)(ids_T)

    def of_pair(logits_2V: jax.Array, ids_2: jax.Array) -> Any:
        return module.next_token_loss(logits_2V, ids_2, -1)

    pairs = (jnp.stack([logits_TV[:-1], logits_TV[1:]], 1), jnp.stack([ids_T[:-1], ids_T[1:]], 1))
    losses = np.asarray(jax.vmap(of_pair)(*pairs))
    shares, best = jax.lax.top_k(jax.nn.softmax(logits_TV), telling.LIKELIEST)
    tokens = [Token(token(ids_T[0]))]
    tokens += [
        Token(token(each), float(charged), None, telling.likeliest(some, ids))
        for each, charged, some, ids in zip(ids_T[1:], losses, shares, best, strict=False)
    ]
    mean, own = float(losses.mean()), loss(trained, ids_T)
    yield Story(
        "What your loss charges the model for each token of a story",
        tuple(tokens),
        f"{mean:.2f} nats per token. Names, toys and places cost much, because nothing before predicts them; what "
        "follows from them is nearly free. Training lowers this number."
        if abs(mean - own) < NEAR * own
        else f"{mean:.2f} nats per token, where this model should be charged {own:.2f} on this story.",
        given=1,
        meaning="nats of loss",
        strongest=6.0,
    )
    padded = (jnp.pad(logits_TV, ((0, PADDING), (0, 0))), np.pad(ids_T, (0, PADDING), constant_values=PAD))
    whole, longer = (float(module.next_token_loss(*story, PAD)) for story in ((logits_TV, ids_T), padded))
    yield Bars(
        "The loss of the whole story",
        (
            Bar("trained model", whole, own),
            Bar(f"with {PADDING} tokens of padding", longer, own),
            Bar("random weights", module.next_token_loss(jitted(untrained)(ids_T), ids_T, PAD), loss(untrained, ids_T)),
        ),
        "nats per token",
        f"{of_padding(whole, longer, own)} Before training, a model guesses among {POCKET.vocab_size:,} "
        f"tokens, which costs at least about ln {POCKET.vocab_size:,} = {np.log(POCKET.vocab_size):.1f}.",
    )


def of_padding(whole: float, longer: float, own: float) -> str:
    """What padding does to the loss of a story, in a sentence."""
    if not abs(longer - whole) < NEAR * own:
        return (
            f"With your loss, {PADDING} tokens of padding change {whole:.3f} nats into {longer:.3f}, as if the model "
            f"had become {'better' if longer < whole else 'worse'}. Padding must change nothing."
        )
    if not abs(whole - own) < NEAR * own:
        return f"Padding changes nothing, but the loss is {whole:.3f}, where it should be {own:.3f}."
    return "Padding is not the model's fault, so it changes nothing."
