"""Problem 51, played: the trained model learns from a reward alone, by the learner's advantages and loss."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress, Table
from harness.model.sampling import Sampling, generate_batch
from harness.training.grpo import kl_estimate
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.tuning import Tuner, target_log_probabilities
from problems.stage.weights import END, TOKENIZER, encode

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness rl {model} --pieces {workspace} --lora 8 --reward word:lake --steps 5 --set context=64"
TRAINS = True
OPENING = "Once there was a grumpy"
WATER = re.compile(r"\b(beach|lake|river|pond|island|harbor|water|boat)\b")
PROMPTS = tuple(f"Once upon a time, there was a {hero} named" for hero in ("girl", "boy", "dog", "fox"))
GROUP, WRITTEN = 8, 24  # continuations of a prompt, and their tokens
ROUNDS, UPDATES = 14, 2  # updates from the continuations of one round
CLIP, KL_WEIGHT, LEARNING_RATE = 0.2, 0.2, 5e-4
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=WRITTEN)


def play(module: LearnerModule) -> Exhibits:
    """The advantages of one group, the reward and the distance from the base over a minute, and a story before and
    after."""
    tuner, base = (Tuner(gpt(), target_log_probabilities, LEARNING_RATE) for _ in range(2))
    ids_BP = np.repeat([encode(prompt) for prompt in PROMPTS], GROUP, axis=0)
    B, P = ids_BP.shape
    rewards, distances = [], []
    for turn in range(ROUNDS):
        written = generate_batch(tuner.model, ids_BP, SAMPLING, END, jax.random.split(jax.random.key(turn), B))
        ids_BT = np.full((B, P + WRITTEN), END, np.int32)
        ids_BT[:, :P] = ids_BP
        sampled_BT = np.zeros((B, P + WRITTEN - 1), bool)
        for row, tokens in enumerate(written):
            ids_BT[row, P : P + len(tokens)] = tokens
            sampled_BT[row, P - 1 : P + len(tokens)] = True
        rewards_GK = np.array([rewarded(tokens) for tokens in written], np.float32).reshape(-1, GROUP)
        advantages_GK = module.group_advantages(jnp.asarray(rewards_GK))
        if not turn:
            yield group(written, rewards_GK, np.asarray(advantages_GK))
        old_BT, base_BT = tuner.read(ids_BT), base.read(ids_BT)
        rewards.append(float(rewards_GK.mean()))
        distances.append(float(jnp.sum((old_BT - base_BT) * sampled_BT) / sampled_BT.sum()))
        known = (old_BT, base_BT, jnp.asarray(sampled_BT), advantages_GK.reshape(-1), CLIP, KL_WEIGHT)
        for _ in range(UPDATES):

            def loss_of(new_BT: jax.Array, known: Any = known) -> Any:
                return module.grpo_loss(new_BT, *known)

            loss = tuner.step(ids_BT, loss_of)
        yield Progress(turn + 1, ROUNDS, loss)
    rose = np.mean(rewards[-3:]) > rewards[0] + 0.25
    yield Lines(
        "The reward: the share of continuations that speak of water",
        (Line("reward", tuple(range(ROUNDS)), rewards),),
        f"From {rewards[0]:.3g} in the first round to {rewards[-1]:.3g} in the last, with {UPDATES} steps a round. "
        + (
            "No text told the model what to write: it tried, and what was rewarded became more likely."
            if rose
            else "With your functions, what was rewarded did not become much more likely."
        ),
        x="round",
        y="reward",
    )
    yield Lines(
        "How far the model has moved from the one before",
        (Line("KL divergence", tuple(range(ROUNDS)), distances),),
        held(module.grpo_loss, tuner.read(ids_BT), *known[:4]),
        x="round",
        y="KL, nats per token",
    )
    for model, when in ((gpt(), "before"), (tuner.model, "after")):
        told = telling.tell(model, 60, prompt=OPENING)
        words = len(WATER.findall(telling.text(told)))
        yield telling.story(told, f"A story {when}", f"It has {words} word{'s' * (words != 1)} of water.")


def held(
    loss: Callable[..., Any],
    new_BT: jax.Array,
    old_BT: jax.Array,
    base_BT: jax.Array,
    sampled_BT: jax.Array,
    advantages_B: jax.Array,
) -> str:
    """A sentence on the KL term of a loss."""
    without, with_it = (float(loss(new_BT, old_BT, base_BT, sampled_BT, advantages_B, CLIP, of)) for of in (0.0, 1.0))
    expected = float(jnp.sum(kl_estimate(new_BT, base_BT) * sampled_BT) / sampled_BT.sum())
    if abs(with_it - without - expected) < 1e-3 * max(1, abs(expected)):
        return (
            "The KL term of your loss holds it back. Without it, the model would move on, and forget how to tell a "
            "story."
        )
    return (
        f"At the end, the KL term of your loss is {with_it - without:.3g}, and that of the harness {expected:.3g}. "
        "The term is there to hold the model back, so that it does not forget how to tell a story."
    )


def rewarded(tokens: Any) -> float:
    """1 for a continuation that speaks of water, else 0."""
    return float(bool(WATER.search(TOKENIZER.decode(tokens))))


def word(tokens: Any) -> str:
    """The word of water for which a continuation is rewarded."""
    found = WATER.search(TOKENIZER.decode(tokens))
    return found[0] if found else "-"


def group(written: list[Any], rewards_GK: np.ndarray, advantages_GK: np.ndarray) -> Table:
    """The continuations of the prompt whose rewards differ most, with your advantages."""
    which = int(rewards_GK.std(axis=1).argmax())
    rows = zip(written[which * GROUP :], rewards_GK[which], advantages_GK[which], strict=False)
    better_GK = np.sign(rewards_GK - rewards_GK.mean(axis=1, keepdims=True))
    return Table(
        f"Eight continuations of “{PROMPTS[which]}”",
        ("word", "reward", "your advantage", "continuation"),
        tuple(
            (word(tokens), f"{of:g}", f"{gain:+.2f}", " ".join(TOKENIZER.decode(tokens).split()))
            for tokens, of, gain in rows
        ),
        "A continuation is rewarded for a word of water, such as “lake” or “beach”. "
        + (
            "What is better than its group gets a positive advantage, and its tokens become more likely."
            if np.array_equal(np.sign(advantages_GK), better_GK)
            else "What is better than its group should get a positive advantage, and what is worse a negative one. In "
            "some group of this batch, yours do not."
        ),
    )
