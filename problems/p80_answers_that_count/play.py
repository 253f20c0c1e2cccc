"""Problem 80, played: guesses of the trained model at the next word, counted by the learner's functions.

A problem is a place in a held-out story, and an answer the token that the model draws there. The model's probabilities
are known, so the truth is, too.
"""

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Table
from problems.stage.model import gpt, jitted
from problems.stage.weights import held_out

STORIES, PLACES, FIRST, N = 40, 6, 8, 24
KS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24)
SHOWN, REPEATS, ASKED = 8, 400, 10


def play(module: LearnerModule) -> Exhibits:
    """pass@k beside the truth, what a vote and a verifier make of the same guesses, and intervals of a difference."""
    chances_PV, targets_P, story_P = places()
    rng = np.random.default_rng(3)
    guesses_PN = drawn(chances_PV, N, rng)
    right_P = chances_PV[np.arange(len(targets_P)), targets_P]
    count_P = (guesses_PN == targets_P[:, None]).sum(axis=1)
    yours = [float(module.pass_at_k(N, count_P, k)) for k in KS]
    truth = [float(np.mean(1 - (1 - right_P) ** k)) for k in KS]
    close = all(abs(one - other) < 0.03 for one, other in zip(yours, truth, strict=True))
    yield Lines(
        f"How likely one of k guesses is the next token, at {len(targets_P)} places of held-out stories",
        (Line("your pass@k", KS, yours), Line("by the model's probabilities", KS, truth)),
        f"Your function saw {N} guesses for each place; the model's own probabilities give the truth. "
        + (
            "The two agree for every k."
            if close
            else f"They should agree. For k = {KS[4]} they are {yours[4]:.1%} and {truth[4]:.1%}."
        ),
        x="k",
        y="pass@k",
    )
    yield chosen(module, chances_PV, targets_P, guesses_PN, yours)
    yield from intervals(module, chances_PV, targets_P, story_P, rng)


def places() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The model's probabilities of the next token at a few places of each story, the token that follows there, and the
    number of the story."""
    run, chances, targets, numbers = jitted(gpt()), [], [], []
    for number, ids in enumerate(held_out(STORIES)):
        at = np.arange(PLACES) * 6 + FIRST
        window = np.asarray(ids)[: at[-1] + 2]
        if len(window) < at[-1] + 2:
            continue
        logits = np.asarray(run(jnp.asarray(window[:-1], jnp.int32)), np.float64)[at]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances.append(odds / odds.sum(axis=1, keepdims=True))
        targets.append(window[at + 1])
        numbers += [number] * PLACES
    return np.concatenate(chances), np.concatenate(targets), np.array(numbers)


def drawn(chances_PV: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n guesses for each place, (P, n)."""
    below_PV = np.cumsum(chances_PV, axis=1)
    guesses = [np.searchsorted(below / below[-1], rng.random(n), side="right") for below in below_PV]
    return np.array(guesses)


def chosen(
    module: LearnerModule, chances_PV: np.ndarray, targets_P: np.ndarray, guesses_PN: np.ndarray, passed: list[float]
) -> Lines:
    """How often the right guess is chosen: by somebody who knows it, by a vote, by the model's own probability."""
    sizes = [k for k in KS if k > 1]
    votes, bests = [], []
    scores_PN = np.take_along_axis(chances_PV, guesses_PN, axis=1)
    correct_PN = guesses_PN == targets_P[:, None]
    for k in sizes:
        winners = [module.majority(row[:k].tolist()) for row in guesses_PN]
        votes.append(float(np.mean([winner == target for winner, target in zip(winners, targets_P, strict=True)])))
        pairs = zip(scores_PN, correct_PN, strict=True)
        bests.append(float(np.mean([module.best_of_n(scores, correct, k) for scores, correct in pairs])))
    greedy = float(np.mean(chances_PV.argmax(axis=1) == targets_P))
    fits = abs(bests[-1] - greedy) < 0.05 and abs(votes[-1] - greedy) < 0.08
    return Lines(
        "The same guesses, and who chooses among k of them",
        (
            Line("somebody who knows: pass@k", sizes, passed[1:]),
            Line("your vote", sizes, votes),
            Line("your best of k, by the model's probability", sizes, bests),
        ),
        f"The model's likeliest token is right at {greedy:.0%} of the places. "
        + (
            "A vote and the model's own score can only find that one, so both end there, far below pass@k."
            if fits
            else "With many guesses, a vote and the model's own score find that one and end there. Yours end at "
            f"{votes[-1]:.0%} and {bests[-1]:.0%}."
        ),
        x="k",
        y="share that is right",
    )


def intervals(
    module: LearnerModule, chances_PV: np.ndarray, targets_P: np.ndarray, story_P: np.ndarray, rng: np.random.Generator
) -> Exhibits:
    """The model at temperature 0.6 against temperature 1, on a few stories at a time: the first intervals, and how many
    hold the truth."""
    sharp_PV = chances_PV ** (1 / 0.6)
    sharp_PV /= sharp_PV.sum(axis=1, keepdims=True)
    rows = np.arange(len(targets_P))
    truth = float(np.mean(sharp_PV[rows, targets_P] - chances_PV[rows, targets_P]))
    stories = np.unique(story_P)
    held, ends = 0, []
    for _ in range(REPEATS):
        some = rng.choice(stories, ASKED)  # a story may come twice, as from a large collection
        places_P = np.concatenate([np.flatnonzero(story_P == story) for story in some])
        a, b = (
            (rng.random((len(places_P), 4)) < each[places_P, targets_P[places_P]][:, None]).astype(np.float64)
            for each in (sharp_PV, chances_PV)
        )
        difference, low, high = module.paired_interval(a, b, np.repeat(np.arange(ASKED), PLACES))
        held += low <= truth <= high
        ends.append((float(difference), float(low), float(high)))
    yield Table(
        f"Is temperature 0.6 better than 1? {SHOWN} tests of {ASKED} stories each",
        ("difference", "interval", "which is better", "holds the truth"),
        tuple(
            (
                f"{difference:+.1%}",
                f"{low:+.1%} to {high:+.1%}",
                "0.6" if low > 0 else "1" if high < 0 else "cannot tell",
                "yes" if low <= truth <= high else "no",
            )
            for difference, low, high in ends[:SHOWN]
        ),
        f"Each test has {ASKED * PLACES} places, and 4 guesses of both for each. The true difference is {truth:+.1%}.",
    )
    share = held / REPEATS
    yield Bars(
        f"{REPEATS} such tests",
        (Bar("intervals that hold the truth", share, 0.95),),
        "share",
        "Your intervals do what they say."
        if abs(share - 0.95) < 0.035
        else "They should hold it 19 times of 20. Fewer means that the unit is too small: samples, or places of one "
        "story, that are not independent. More means that they are wider than they need be.",
        names=("yours", "as they say"),
    )
