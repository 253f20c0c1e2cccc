"""Problem 51, played: the trained model learns from a reward alone, by the learner's advantages and loss."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Line, Lines, Progress
from harness.model.sampling import Sampling, generate_batch
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.tuning import Tuner, target_log_probabilities
from problems.stage.weights import END, TOKENIZER, encode

TRAINS = True
WORD, WISHED = "rain", "rain"
PROMPTS = tuple(f"{name} liked to play at the" for name in ("Mia", "Tom", "Lily", "Ben"))
GROUP, WRITTEN, ROUNDS, UPDATES = 8, 24, 16, 2  # continuations of a prompt, their tokens; each round is used for two updates
CLIP, KL_WEIGHT, LEARNING_RATE = 0.2, 0.02, 3e-4
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=WRITTEN)


def play(module):
    """The advantages of one group, the reward and the distance from the base over a minute, and a story before and after."""
    tuner = Tuner(gpt(), target_log_probabilities, LEARNING_RATE)
    before = telling.tell(tuner.model, 60, prompt=PROMPTS[0])
    ids_P = [encode(prompt) for prompt in PROMPTS]
    given = len(ids_P[0])
    ids_BP = np.repeat(np.array(ids_P), GROUP, axis=0)
    base = Tuner(gpt(), target_log_probabilities, LEARNING_RATE)
    rewards, distances = [], []
    for turn in range(ROUNDS):
        keys_B = jax.vmap(lambda row, turn=turn: jax.random.fold_in(jax.random.key(turn), row))(jnp.arange(len(ids_BP)))
        written = generate_batch(tuner.model, ids_BP, SAMPLING, END, keys_B)
        ids_BT = np.full((len(ids_BP), given + WRITTEN), END, np.int32)
        ids_BT[:, :given] = ids_BP
        sampled_BT = np.zeros((len(ids_BP), given + WRITTEN - 1), bool)
        for row, tokens in enumerate(written):
            ids_BT[row, given : given + len(tokens)] = tokens
            sampled_BT[row, given - 1 : given + len(tokens)] = True
        rewards_GK = np.array([reward(tokens) for tokens in written], np.float32).reshape(len(PROMPTS), GROUP)
        advantages_GK = module.group_advantages(jnp.asarray(rewards_GK))
        if not turn:
            yield one_group(rewards_GK, np.asarray(advantages_GK))
        old_BT, base_BT = tuner.read(ids_BT), base.read(ids_BT)
        rewards.append(float(rewards_GK.mean()))
        distances.append(float(jnp.sum((old_BT - base_BT) * sampled_BT) / sampled_BT.sum()))
        for _ in range(UPDATES):
            tuner.step(
                ids_BT,
                lambda new_BT, rows=(old_BT, base_BT, jnp.asarray(sampled_BT), advantages_GK.reshape(-1)): module.grpo_loss(
                    new_BT, *rows, CLIP, KL_WEIGHT
                ),
            )
        yield Progress(turn + 1, ROUNDS, -rewards[-1])
    yield Lines(
        f"The reward: what share of the continuations speaks of “{WISHED}”",
        (Line("reward", range(ROUNDS), rewards),),
        x="round",
        y="reward",
    )
    yield Lines(
        "How far the model has moved from where it began",
        (Line("KL divergence", range(ROUNDS), distances),),
        "in nats per token",
        x="round",
        y="KL",
    )
    yield telling.story(before, "A story before")
    yield telling.story(telling.tell(tuner.model, 60, prompt=PROMPTS[0]), "A story after")


def reward(tokens):
    """1 for a continuation with the word, else 0."""
    return float(WORD in TOKENIZER.decode(tokens))


def one_group(rewards_GK, advantages_GK):
    """The rewards and advantages of the group whose rewards differ most."""
    group = int(rewards_GK.std(axis=1).argmax())
    bars = tuple(
        Bar(f"continuation {row + 1}", advantage, of)
        for row, (of, advantage) in enumerate(zip(rewards_GK[group], advantages_GK[group], strict=True))
    )
    return Bars("x", bars, "y", names=("advantage", "reward"))
