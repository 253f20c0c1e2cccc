"""Problem 79: a policy that learns from the samples of another program, and of an earlier self."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output
from grader.problem import EXACT, Case, Cases, Check, Difference, Entry, Problem, Tolerance

WEIGHTS, LOSS, KL, REWARDS = "sampler_weights", "policy_loss", "kl_loss", "penalized_rewards"
NEAR, FAR = 0.08, 1.5  # log-ratios inside and outside of the clipping range; many programs have a further limit at 3
GAPS = (-0.7, -0.2, 0.2, 0.9)  # of the log-probabilities of trainer and sampler; the last one is truncated
APART = (-0.9, -0.3, 0.3, 3.5)  # of those of base and trainer; k3 of the last one is more than 10


def _cycled(values: Any, rows: int, rng: Any) -> Any:
    """A column with one of `values` for each row, each nearly equally often, in random order."""
    import numpy as np

    return rng.permutation(np.resize(values, rows))[:, None]


def _centered(noise: Any, sampled: Any) -> Any:
    """Noise whose sum over the sampled tokens of each row is 0."""
    import numpy as np

    return noise - (noise * sampled).sum(axis=1, keepdims=True) / np.maximum(sampled.sum(axis=1, keepdims=True), 1)


def rollouts(sizes: Mapping[str, int], rng: Any, kind: str = "token") -> dict[str, Any]:
    """Continuations of different lengths. Their log-ratios, or those of whole rows, are inside, below and above the
    clipping range, and some of the weights are truncated."""
    import numpy as np

    B, T = sizes["B"], sizes["T"]
    lengths = rng.permutation(np.linspace(4, T - 2, B).astype(int))[:, None]
    start, places = rng.integers(1, 3, (B, 1)), np.arange(T)
    sampled = (places >= start) & (places < start + lengths)
    signs = rng.permutation(np.where(np.arange(B) % 2, 1, -1))
    jitter = rng.uniform(0.8, 1.2, (3, B, T))
    apart = jitter[2] * rng.choice(APART, (B, T))
    if kind == "token":
        each = np.zeros((3, B, T))
        for array, levels in zip(each, ((-FAR, -NEAR, NEAR, FAR), GAPS, APART), strict=True):
            for row, first in enumerate(start[:, 0]):  # the first four tokens of a row have all four
                array[row] = rng.choice(levels, T)
                array[row, first : first + 4] = rng.permutation(levels)
        moved, gap, apart = jitter * each
    else:
        far = np.where(np.arange(B) % 4 < 2, FAR, -FAR)  # both sides of the range, with both signs of the advantage
        far[-1] = NEAR
        order = rng.permutation(B)
        signs = np.where(np.arange(B) % 2, 1, -1)[order]
        noise = rng.uniform(-0.5, 0.5, (2, B, T)) * [[[1.0]], [[2.0]]]  # some tokens have a gap that is truncated alone
        moved = (far[order] * rng.uniform(0.8, 1.2, B))[:, None] + _centered(noise[0], sampled)
        gap = _cycled((-0.8, 1.1, 0.3), B, rng) * rng.uniform(0.9, 1.1, (B, 1)) / lengths + _centered(noise[1], sampled)
    old = -rng.uniform(0.7, 3.0, (B, T))
    arrays = {"new": old + moved, "old": old, "sampler": old - gap}
    arrays["base"] = arrays["new"] + apart
    return {
        **{name: np.where(sampled, array, rng.standard_normal((B, T))).astype("float32")
           for name, array in arrays.items()},
        "sampled": sampled,
        "advantages": (signs * rng.uniform(0.4, 1.6, B)).astype("float32"),
        "rewards": rng.uniform(0.0, 1.0, B).astype("float32"),
        "kind": kind,
        "clip_low": round(rng.uniform(0.15, 0.22), 3),
        "clip_high": round(rng.uniform(0.26, 0.35), 3),
        "max_weight": round(rng.uniform(1.5, 1.8), 3),
        "kl_weight": 0.4,
    }  # fmt: skip


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, for ratios and weights of whole continuations."""
    return rollouts(sizes, rng, "sequence")


def wild(sizes: Mapping[str, int], rng: Any, kind: str = "token") -> dict[str, Any]:
    """Padding with numbers so far apart that the exponential of their difference is infinite. One row is nothing
    else, and another has such a number between its tokens."""
    import numpy as np

    values = rollouts(sizes, rng, kind)
    values["sampled"][0, values["sampled"][0].argmax() + 1] = False
    values["sampled"][1] = False
    sign = rng.choice([-1, 1], values["new"].shape) * np.float32(1e30)
    for key, factor in {"new": sign, "old": -sign, "sampler": sign, "base": -sign}.items():
        values[key] = np.where(values["sampled"], values[key], factor).astype("float32")
    return values


def wild_texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, for ratios and weights of whole continuations."""
    return wild(sizes, rng, "sequence")


def indifferent(sizes: Mapping[str, int], rng: Any, kind: str = "token") -> dict[str, Any]:
    """One row whose advantage is 0."""
    values = rollouts(sizes, rng, kind)
    values["advantages"][rng.integers(len(values["advantages"]))] = 0
    return values


def indifferent_texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, for ratios and weights of whole continuations."""
    return indifferent(sizes, rng, "sequence")


def empty(sizes: Mapping[str, int], rng: Any, kind: str = "token") -> dict[str, Any]:
    """One row whose continuation is empty."""
    import numpy as np

    values = rollouts(sizes, rng, kind)
    return {**values, "sampled": np.zeros_like(values["sampled"])}


def empty_texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, for ratios and weights of whole continuations."""
    return empty(sizes, rng, "sequence")


def long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Continuations so long that their probabilities round to 0.

    All log-probabilities are multiples of 1/64, so that float32 adds them up exactly.
    """
    import numpy as np

    values = rollouts(sizes, rng, "sequence")
    sampled = values["sampled"]
    for name in ("new", "old", "sampler"):
        values[name] = np.round(values[name] * 64) / 64
    gap = np.array([0.25, -0.5] * len(sampled))[: len(sampled)]
    values["sampler"][:, 3] += ((values["old"] - values["sampler"]) * sampled).sum(axis=1) - gap
    return {**values, **{name: values[name].astype("float32") for name in ("new", "old", "sampler")}}


def bandit(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A bandit with three arms, each a text of one token. Every batch has the samples of one sampler, which is far from
    the policy. The KL term is in the loss."""
    import numpy as np

    counts = np.array([2, 4, 6])
    rewards = np.array([1.0, 0.45, 0.1]) + rng.uniform(-0.05, 0.05, 3)
    scores = np.array([0.0, -0.3, 0.3]) + rng.uniform(-0.1, 0.1, 3)
    order = rng.permutation(3)  # of the tokens: the arm that was first is order[0] now
    return {
        "scores": scores[np.argsort(order)].astype("float32"),
        "texts": np.repeat(order, counts)[:, None].astype("int32"),
        "sampler": np.log(np.repeat(counts / counts.sum(), counts))[:, None].astype("float32"),
        "rewards": np.repeat(rewards, counts).astype("float32"),
        "kind": "token",
        "penalty": "loss",
        **LEARNING,
    }


def bandit_of_texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A bandit with four arms, the texts of two tokens of two. The policy draws both tokens from the same distribution,
    and the sampler does not. The KL term is in the rewards."""
    import numpy as np

    counts = np.array([[4, 2], [3, 3]])
    rewards = np.array([[0.67, 1.33], [0.0, 2.0]]) + rng.uniform(-0.05, 0.05, (2, 2))
    scores = np.array([-0.4, 0.4]) + rng.uniform(-0.1, 0.1, 2)
    if rng.random() < 0.5:  # the tokens change names
        counts, rewards, scores = counts[::-1, ::-1], rewards[::-1, ::-1], scores[::-1]
    first, second = np.divmod(np.repeat(np.arange(4), counts.ravel()), 2)
    log_first = np.log(counts.sum(axis=1) / counts.sum())
    log_second = np.log(counts / counts.sum(axis=1, keepdims=True))
    return {
        "scores": scores.astype("float32"),
        "texts": np.stack([first, second], axis=1).astype("int32"),
        "sampler": np.stack([log_first[first], log_second[first, second]], axis=1).astype("float32"),
        "rewards": rewards[first, second].astype("float32"),
        "kind": "sequence",
        "penalty": "reward",
        **LEARNING,
    }


def probability_in_words(case: Case, difference: Difference) -> str:
    """A sentence on what a bandit has learned."""
    return (
        f"after {case.values['updates']} updates with the KL term in the {case.values['penalty']}, the policy gives "
        f"token {difference.index[0]} the probability {difference.got}; the optimum is {difference.expected}"
    )


def values(entry: str, name: str, points: int, leaves: str = "", cases: str = "tokens", **more: Any) -> Check:
    """A check of a result and of its gradients with respect to the log-probabilities that it depends on."""
    wrt = ["old", "sampler"] if entry == WEIGHTS else ["new", "old", "sampler"]
    return Check(name, points, "values", {"entry": entry, "wrt": wrt}, leaves, cases, traced=True, **more)


LEARNING = {
    "clip_low": 0.2, "clip_high": 0.28, "max_weight": 8.0, "kl_weight": 0.5, "learning_rate": 2.0, "updates": 80,
}  # fmt: skip
# The rewards and the scores of a bandit are drawn a little differently each time. Errors of rounding shrink from update
# to update, and what a biased loss learns is off by 0.01 or more.
LEARNED = Tolerance(rtol=0.0, atol=1e-3)
SIZES, TEXTS, ONE = {"B": (3, 4), "T": (8, 11)}, {"B": (5, 7), "T": (8, 11)}, {"B": (1,), "T": (8, 11)}
CONSTANT = (
    "Only `new` has a gradient here. What the gradient reaches through `old` and `sampler` trains the weight, not the "
    "policy: use `jax.lax.stop_gradient`."
)
ANYTHING = (
    "Where `sampled` is False, the exponentials overflow. Replace the differences by 0 there *before* the exponential: "
    "a mask after it comes too late, because infinity times 0 is NaN. A row without a sampled token counts nowhere."
)
INDIFFERENT = "A text with the advantage 0 has no gain, and still its tokens count in the mean."
BIASED = (
    "The policy learns, but not what it is paid for: the mean of your gradients is not the gradient of the reward less "
    "`kl_weight` times KL(policy‖base). Compare the weights, and the gradient of the KL term, with the page."
)

PROBLEM = Problem(
    title="A policy with a lag",
    minutes=120,
    builds_on=(29, 51),
    entries=(
        Entry(WEIGHTS, ("old", "sampler", "sampled", "kind", "max_weight")),
        Entry(
            LOSS,
            ("new", "old", "sampler", "sampled", "advantages", "kind", "clip_low", "clip_high", "max_weight"),
        ),
        Entry(KL, ("new", "old", "sampler", "base", "sampled", "max_weight")),
        Entry(REWARDS, ("rewards", "old", "base", "sampled", "kl_weight")),
    ),
    cases={
        "tokens": Cases(rollouts, SIZES, draws=2, covers=("coprime",)),
        "texts": Cases(texts, TEXTS, draws=2),
        "wild": Cases(wild, SIZES, draws=1, covers=("magnitudes",)),
        "wild texts": Cases(wild_texts, TEXTS, draws=1),
        "indifferent": Cases(indifferent, SIZES, draws=1),
        "indifferent texts": Cases(indifferent_texts, TEXTS, draws=1),
        "empty": Cases(empty, ONE, draws=1, covers=("one",)),
        "empty texts": Cases(empty_texts, ONE, draws=1),
        "long": Cases(long, {"B": (2,), "T": (211,)}, draws=1),
        "bandit": Cases(bandit, {}, draws=1),
        "bandit of texts": Cases(bandit_of_texts, {}, draws=1),
    },
    checks=(
        values(WEIGHTS, "weights of tokens", 2, "output"),
        values(WEIGHTS, "weights of texts", 2, "output", "texts"),
        values(WEIGHTS, "weights are constants", 1, "gradient", tolerance=EXACT, advice=CONSTANT),
        values(LOSS, "loss of tokens", 2, "output"),
        values(LOSS, "gradient of tokens", 1, "gradient", advice=CONSTANT),
        values(LOSS, "loss of texts", 2, "output", "texts"),
        values(LOSS, "gradient of texts", 1, "gradient", "texts", advice=CONSTANT),
        Check("long texts", 1, "apart", leaves="output", cases="long", calls=(LOSS,)),
        values(LOSS, "padding can hold anything", 1, cases="wild", advice=ANYTHING),
        values(LOSS, "an empty text among others", 1, cases="wild texts", advice=ANYTHING),
        values(LOSS, "tokens without an advantage", 1, "output", "indifferent", advice=INDIFFERENT),
        values(LOSS, "a text without an advantage", 1, "output", "indifferent texts", advice=INDIFFERENT),
        values(LOSS, "no sampled token gives 0", 1, cases="empty"),
        values(LOSS, "no text gives 0", 1, cases="empty texts"),
        values(KL, "KL loss", 2, "output"),
        values(KL, "gradient of the KL loss", 2, "gradient", advice=CONSTANT),
        values(KL, "padding of the KL loss", 1, cases="wild", advice=ANYTHING),
        values(KL, "KL loss of nothing is 0", 1, cases="empty"),
        output(REWARDS, points=2, name="penalized rewards", cases="tokens"),
        output(REWARDS, points=1, name="padding of the rewards", cases="wild"),
        Check(
            "a bandit, KL in the loss", 2, "learning", {}, "policy", "bandit", tolerance=LEARNED, traced=True,
            in_words=probability_in_words, advice=BIASED, calls=(LOSS, KL),
        ),
        Check(
            "a bandit of texts, KL in the rewards", 2, "learning", {}, "policy", "bandit of texts", tolerance=LEARNED,
            traced=True, in_words=probability_in_words, advice=BIASED, calls=(LOSS, REWARDS),
        ),
    ),
)  # fmt: skip
