"""Problem 80: pass@k, a vote, best of n, and paired intervals."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

PASS, VOTE, BEST, INTERVAL = "pass_at_k", "majority", "best_of_n", "paired_interval"
EVALUATIONS = 2_000
# In float64, a sum of 100,000 differences of exponentials of log-gamma functions is right to 2e-9, and a product of
# 100,000 factors to 1e-11. The mistaken formula for pass@10 of 100,000 samples is off by 1e-6 or more.
DIGITS = Tolerance(rtol=0.0, atol=1e-7)
# Rounding decides nothing in 2,000 evaluations. Normal quantiles in place of Student's lose 40 of them, and 4 is this
# tolerance. The widths are those of the intervals, so they agree to all digits.
OF_EVALUATIONS = Tolerance(rtol=0.0, atol=0.002)


def samples(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """How many of n samples are right, for problems that are easy or hard. `edges` adds problems of which none, all, or
    just too few are wrong."""
    import numpy as np

    n, k = sizes["n"], sizes["k"]
    c = rng.binomial(n, rng.uniform(0.1, 0.7, sizes["P"]))
    if sizes.get("edges"):
        c = rng.permutation(np.concatenate([c, [0, n, n - k, n - k + 1, 1]]))
    return {"n": n, "c": c.astype("int64"), "k": k}


def one_sample(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    import numpy as np

    return {"n": 1, "c": np.array([1, 0][: sizes["P"]]), "k": 1}


def answers(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Answers of which one leads, without half of the votes, and neither the first nor the smallest. `unread` of them
    are None, more than any answer has votes."""
    import numpy as np

    leading, *others = rng.permutation(np.arange(-4, 9))[:5].tolist()
    smaller = min([leading, *others]) - int(rng.integers(1, 4))
    votes = [leading] * sizes["votes"] + others + [smaller, smaller] + [None] * sizes["unread"]
    found = [votes[place] for place in rng.permutation(len(votes))]
    return {"answers": repr([*others[:1], *found])}


def tied(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Five answers with equally many votes: the first to appear and the last, the first to have all of its votes, the
    smallest and the largest."""
    smallest, *middle, largest = sorted(rng.permutation(30)[:5].tolist())
    first, quick, last = (middle[place] for place in rng.permutation(3))
    between = [smallest, largest] if rng.integers(2) else [largest, smallest]
    votes = sizes["votes"] - 1
    return {"answers": repr([first, *[quick] * (votes + 1), *between, last, *[*between, last, first] * votes])}


def nothing_read(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """No answer that was read; or one, which is 0."""
    return {"answers": repr([None] * sizes["unread"] + [0] * sizes["zeros"])}


def scored(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Samples with the scores of a verifier, which prefers right ones and is sure of a wrong one. With `levels`, scores
    are multiples of 1 / levels, and a right sample has the highest one, too. Without, its score is a little less."""
    import numpy as np

    N, levels = sizes["N"], sizes["levels"]
    correct = rng.permutation(np.arange(N) < max(1, round(0.4 * N)))
    scores = rng.normal(0.8 * correct, 1.0) - 0.5
    scores[rng.choice(np.flatnonzero(~correct))] = 3.0
    if levels:
        scores = np.round(scores * levels) / levels + 0.0  # no -0.0
    scores[rng.choice(np.flatnonzero(correct))] = scores.max() - (0.0 if levels else 1e-8)
    return {"scores": scores, "correct": correct, "n": min(sizes["n"], N)}


def two_models(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Right and wrong samples of two models to the same problems, of which some are hard for both. `together` is how
    many problems the largest group has."""
    import numpy as np

    P, together = sizes["P"], sizes["together"]
    counts = [together] + [1 + place % together for place in range(P)] if together > 1 else [1] * P
    groups = np.repeat(rng.permutation(50)[: len(counts)] - 7, counts)[:P]
    hard, gain = rng.uniform(0.2, 0.8, 60)[groups + 7], rng.uniform(-0.2, 0.4, 60)[groups + 7]
    a, b = (
        (rng.random((P, sizes[name])) < np.clip(hard + sign * gain / 2, 0.05, 0.95)[:, None]).astype("float64")
        for name, sign in (("A", 1), ("B", -1))
    )
    a[0], b[0] = 1.0, 0.0  # the models differ
    b[-1, 0] = 0.5  # a part of the points
    order = rng.permutation(P)
    return {"a": a[order], "b": b[order], "groups": groups[order].astype("int64")}


def two_texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One sample of two models to problems about two texts, of which each model does better at one."""
    import numpy as np

    P, first = sizes["P"], sizes["P"] // 2 + 1
    a = np.concatenate([np.ones(first), [1.0], np.zeros(P - first - 1)])
    b = np.concatenate([np.zeros(first - 1), [1.0], np.ones(P - first)])
    order = rng.permutation(P)
    groups = np.where(np.arange(P) < first, *rng.permutation(np.arange(-5, 20))[:2])
    return {"a": a[order, None], "b": b[order, None], "groups": groups[order].astype("int64")}


def evaluations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**sizes, "evaluations": EVALUATIONS, "seed": int(rng.integers(1, 1 << 30))}


def winner_in_words(case: Case, wrong: Difference) -> str:
    """A sentence on a wrong winner of a vote."""
    if wrong.path.endswith("won"):
        none, some = "`majority` returned None", "`majority` returned an answer"
        return f"{none}, expected an answer" if wrong.got == "0" else f"{some}, expected None"
    return f"`majority` returned {wrong.got}, expected {wrong.expected}"


def end_in_words(case: Case, wrong: Difference) -> str:
    """A sentence on a wrong part of an interval."""
    part = wrong.path.rpartition(".")[2]
    what = {"difference": "the difference", "low": "the lower end", "high": "the upper end"}[part]
    return f"{what} is {wrong.got}, expected {wrong.expected}"


def coverage_in_words(case: Case, wrong: Difference) -> str:
    """A sentence on how often the intervals held the true difference."""
    if wrong.path.endswith("width"):
        return f"your intervals are {wrong.got} wide in the mean, expected {wrong.expected}"
    return (
        f"in {case.values['evaluations']:,} simulated evaluations, the share of your intervals that hold the true "
        f"difference is {wrong.got}, expected {wrong.expected}"
    )


def number(name: str, points: int, entry: str, cases: str) -> Check:
    return Check(
        name, points, "counting", {"entry": entry}, "number", cases, tolerance=DIGITS, calls=(entry,),
        in_words=lambda _, wrong: f"`{entry}` returned {wrong.got}, expected {wrong.expected}",
    )  # fmt: skip


def vote(name: str, points: int, cases: str) -> Check:
    return Check(
        name, points, "voting", leaves="vote", cases=cases, tolerance=DIGITS, calls=(VOTE,), in_words=winner_in_words
    )


def interval(name: str, points: int, cases: str) -> Check:
    return Check(
        name, points, "comparing", leaves="interval", cases=cases, tolerance=DIGITS, in_words=end_in_words,
        calls=(INTERVAL,),
    )  # fmt: skip


PROBLEM = Problem(
    title="Answers that count",
    minutes=100,
    builds_on=(29,),
    entries=(
        Entry(PASS, ("n", "c", "k")),
        Entry(VOTE, ("answers",)),
        Entry(BEST, ("scores", "correct", "n")),
        Entry(INTERVAL, ("a", "b", "groups"), returns=("difference", "low", "high")),
    ),
    cases={
        "samples": Cases(samples, {"n": (5, 8, 12), "P": (3, 4), "k": (2, 3)}, draws=3),
        "edges": Cases(samples, {"n": (6, 9), "P": (2,), "k": (4, 3), "edges": (1,)}, draws=2),
        "one sample": Cases(one_sample, {"P": (1, 2)}, draws=2, covers=("one",)),
        "many samples": Cases(samples, {"n": (100_000,), "P": (2,), "k": (10, 40_000), "edges": (1,)}, draws=2),
        "answers": Cases(answers, {"votes": (3, 4), "unread": (0,)}, draws=2),
        "tied": Cases(tied, {"votes": (2, 3)}, draws=3),
        "unread": Cases(answers, {"votes": (3, 4), "unread": (5, 6)}, draws=2),
        "nothing read": Cases(nothing_read, {"unread": (1, 3), "zeros": (0, 1, 2)}, draws=4),
        "scored": Cases(scored, {"N": (5, 9), "levels": (0,), "n": (2, 3)}, draws=3),
        "tied scores": Cases(scored, {"N": (8, 11), "levels": (1, 2), "n": (2, 3)}, draws=3),
        "one and all": Cases(scored, {"N": (5,), "levels": (0, 2), "n": (1, 99)}, draws=4),
        "many scored": Cases(scored, {"N": (100_000,), "levels": (0, 9), "n": (64, 5_000)}, draws=2),
        "alone": Cases(
            two_models, {"P": (7, 11, 40), "A": (3,), "B": (2,), "together": (1,)}, draws=3, covers=("coprime",)
        ),
        "together": Cases(two_models, {"P": (8, 13), "A": (3,), "B": (2,), "together": (3, 4)}, draws=3),
        "two groups": Cases(two_texts, {"P": (5, 6)}, draws=2),
        "evaluations": Cases(evaluations, {"G": (9,), "together": (3,), "A": (8,), "B": (6,)}, draws=1),
    },
    checks=(
        number("pass@k", 2, PASS, "samples"),
        number("none or all right", 1, PASS, "edges"),
        number("pass@1 of one sample", 1, PASS, "one sample"),
        number("pass@k of 100,000 samples", 2, PASS, "many samples"),
        vote("vote", 1, "answers"),
        vote("tied votes", 1, "tied"),
        vote("answers that could not be read", 1, "unread"),
        vote("one answer or none", 1, "nothing read"),
        number("best of n", 2, BEST, "scored"),
        number("tied scores", 1, BEST, "tied scores"),
        number("best of one and of all", 1, BEST, "one and all"),
        number("best of 100,000 samples", 1, BEST, "many scored"),
        interval("interval", 2, "alone"),
        interval("problems that belong together", 2, "together"),
        interval("two groups", 1, "two groups"),
        Check("coverage", 2, "covering", leaves="coverage", cases="evaluations", tolerance=OF_EVALUATIONS,
              in_words=coverage_in_words, calls=(INTERVAL,)),
    ),
)  # fmt: skip
