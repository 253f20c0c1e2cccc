"""Problem 56: a quality filter, by hashed n-grams, logistic regression and a threshold."""

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

GOOD = """because although water energy light cells plants history river north century people found many different
method result theory known often between called during small example""".split()
BAD = (
    "click here buy now free best price offer subscribe login menu home cart deal win cheap order today follow share"
).split()
# Letters of one to four bytes, with and without a lower case. The pictures and the dash are no letters.
SCRIPTS = "Straße, Ñandú Москва 東京 𐐀𐐁 🎉now🎉 buy—today x2_y"
BOTH = "the of and to in is a for that it with as on you this".split()
LOSS, WRT = "logistic_loss", ["weights", "bias"]
# The loss is convex. Measured: L-BFGS with its default tolerance, Newton and JAX in float32 agree to 1e-4 of the
# weights' size, wrong ones differ by 2% or more.
FIT = Tolerance(rtol=2e-3, atol=2e-3)
SHARES = Tolerance(rtol=1e-6, atol=1e-9)


def bucket(gram: str, seed: int, num_buckets: int) -> int:
    """As in the stub."""
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % num_buckets


def text_of(words: Any, rng: Any, length: int, quality: float) -> str:
    """A random text. The share `quality` of its words is from one list, the rest from the other."""
    first, second = words
    some = [
        str(rng.choice(BOTH if rng.random() < 0.4 else first if rng.random() < quality else second))
        for _ in range(length)
    ]
    return " ".join(some).capitalize() + "."


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text with capitals, punctuation, and words and pairs that come again. `marks` of 2 is a long one with other
    scripts."""
    plain = text_of((GOOD, BAD), rng, sizes["words"], 0.5)
    again = " ".join(plain.split()[:3])
    text = [
        plain,
        f"{again}, {again.upper()}! 3 {plain}\n(Zoë's {again})",
        f"{plain} {SCRIPTS}\n{'free ' * 300}{plain}",
    ][sizes["marks"]]
    return {"text": text, "num_buckets": sizes["B"], "seed": int(rng.integers(1, 10_000))}


def short(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One word, or none."""
    text = ["?! ...", str(rng.choice(GOOD))][sizes["words"]]
    return {"text": text, "num_buckets": 8, "seed": int(rng.integers(1, 10_000))}


def logits(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Texts as random features. With `scale`, logits are far from 0, on both sides and with both labels."""
    import numpy as np

    N, B = sizes["N"], sizes["B"]
    x, weights = rng.standard_normal((N, B)), rng.standard_normal(B)
    labels = rng.integers(0, 2, N)
    labels[:2] = 0, 1
    if sizes["scale"] > 1:
        weights = sizes["scale"] * np.sign(weights) * (1 + abs(weights)) / 2
        x[:4] = [[1], [-1], [1], [-1]] * np.sign(weights) * (1 + abs(x[:4]))
        labels[:4] = 0, 1, 1, 0
    return {
        "weights": weights.astype("float32"),
        "bias": np.array(rng.standard_normal() + 1, "float32"),
        "x": x.astype("float32"),
        "labels": labels.astype("int32"),
        "l2": round(rng.uniform(0.2, 0.6), 3),
    }


def data(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Features as shares, and labels that depend on some of them. Most texts are good."""
    import numpy as np

    N, B = sizes["N"], sizes["B"]
    x = rng.dirichlet(np.full(B, 0.3), N)
    scores = x @ rng.standard_normal(B) * 4 + 0.3 * rng.standard_normal(N)
    return {"x": x, "labels": (scores > np.quantile(scores, 0.35)).astype("int32"), "l2": 0.01}


def scored(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores of good and bad texts, and a recall. With `ties`, many scores are equal, such as those of the best
    texts."""
    import numpy as np

    good, bad = sizes["good"], sizes["bad"]
    scores = np.append(rng.standard_normal(good) + 1, rng.standard_normal(bad) - 0.5)
    if sizes["ties"]:
        scores = np.round(scores)
        scores[:good] = [3] * (good - 3) + [1, 0, -2]
    order = rng.permutation(good + bad)
    labels = np.append(np.ones(good), np.zeros(bad)).astype("int32")
    recall = [0.5, 0.75, 0.9, 0.3, 1.0, 0.6][sizes["recall"]]
    return {"scores": scores[order], "labels": labels[order], "recall": recall}


def judged(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same with a threshold, which is the score of one of the good texts."""
    values = scored({**sizes, "recall": 0}, rng)
    some = sorted(values["scores"][values["labels"] == 1])
    return {"scores": values["scores"], "labels": values["labels"], "threshold": float(some[2])}


def corpus(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Texts of some sites. A site has words of its own, and good and bad texts. Some sites are held out."""
    import numpy as np

    seed = int(rng.integers(1, 10_000))
    names = [f"site{number}.org" for number in rng.permutation(400)]
    out = [name for name in names if bucket(name, seed, 4) == 0][: sizes["out"]]
    sites = out + [name for name in names if bucket(name, seed, 4)][: sizes["sites"] - len(out)]
    rows = []
    for number, site in enumerate(sites):
        own = [f"{word}{number}" for word in ("logo", "team", "news")]
        for label in [*[1] * sizes["each"], *[0] * (sizes["each"] - 1)]:
            words = text_of((GOOD, BAD), rng, int(rng.integers(8, 16)), 0.65 if label else 0.35)
            rows.append((f"{rng.choice(own)} {words}", label, site))
    rows = [rows[place] for place in rng.permutation(len(rows))]
    return {
        "texts": "\n".join(row[0] for row in rows),
        "labels": np.array([row[1] for row in rows], "int32"),
        "groups": "\n".join(row[2] for row in rows),
        "num_buckets": sizes["B"],
        "seed": seed,
        "l2": 0.001,
        "recall": 0.75,
    }


def filtered(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Texts, two of which are empty, and a filter. They have just the score of the threshold, and two others a score
    near it."""
    some = [text_of((GOOD, BAD), rng, int(rng.integers(3, 9)), rng.random()) for _ in range(sizes["M"] + 60)]
    weights = rng.permutation(sizes["B"]) - (sizes["B"] - 1) // 2.0  # some of each sign
    bias, seed = float(rng.choice([-0.5, 0.5])), int(rng.integers(1, 10_000))

    def without_bias(text: str) -> float:
        words = text.lower().removesuffix(".").split()
        grams = words + [f"{left} {right}" for left, right in pairwise(words)]
        return float(sum(weights[bucket(gram, seed, sizes["B"])] for gram in grams)) / len(grams)

    some = [text for text in some if without_bias(text)]  # rounding would decide on the others
    below = max((text for text in some if without_bias(text) < 0), key=without_bias, default="")
    above = min((text for text in some if without_bias(text) > 0), key=without_bias, default="")
    return {
        "texts": "\n".join(["", *some[: sizes["M"] - 4], below, above, ""]),
        "weights": weights,
        "bias": bias,
        "threshold": bias,  # the score of an empty text
        "seed": seed,
    }


def of_a_bucket(case: Case, difference: Difference) -> str:
    """What a bucket should hold."""
    return f"bucket {difference.index[0]} holds {difference.got} of the text, expected {difference.expected}"


def of_a_text(case: Case, difference: Difference) -> str:
    """Whether a text is kept."""
    (place,) = difference.index
    got, expected = ("kept" if each == "1" else "not kept" for each in (difference.got, difference.expected))
    return f"text {place} ({str(case.values['texts']).split(chr(10))[place]!r}) is {got}; expected: {expected}"


def shares(name: str, points: int, probe: str, leaves: str, **more: Any) -> Check:
    return exact(name, points, probe, leaves, tolerance=SHARES, **more)


COUNTS = {"good": (1, 4, 8), "bad": (5, 12)}
PROBLEM = Problem(
    title="A quality filter",
    minutes=150,
    builds_on=(53, 55),
    entries=(
        Entry("features", ("text", "num_buckets", "seed")),
        Entry(LOSS, ("weights", "bias", "x", "labels", "l2")),
        Entry("fit", ("x", "labels", "l2"), returns=("weights", "bias")),
        Entry("choose_threshold", ("scores", "labels", "recall")),
        Entry("evaluate", ("scores", "labels", "threshold"), returns=("precision", "recall")),
        Entry(
            "train_filter", ("texts", "labels", "groups", "num_buckets", "seed", "l2", "recall"),
            returns=("weights", "bias", "threshold"),
        ),
        Entry("keep", ("texts", "weights", "bias", "threshold", "seed")),
    ),
    cases={
        "texts": Cases(texts, {"words": (4, 7), "marks": (0, 1, 1), "B": (16, 7, 33)}, draws=4),
        "scripts": Cases(texts, {"words": (4,), "marks": (2,), "B": (13,)}, draws=1, covers=("text",)),
        "short": Cases(short, {"words": (1, 0)}, draws=2),
        "logits": Cases(logits, {"N": (5,), "B": (3,), "scale": (1,)}, draws=2, covers=("coprime",)),
        "large": Cases(logits, {"N": (5,), "B": (3,), "scale": (300,)}, draws=1),
        "data": Cases(data, {"N": (40,), "B": (6, 53)}, draws=2),
        "scored": Cases(scored, {**COUNTS, "ties": (0,), "recall": (1, 2, 3, 5)}, draws=6, covers=("one",)),
        "tied": Cases(scored, {"good": (8,), "bad": (8, 9), "ties": (1,), "recall": (0, 1, 4)}, draws=3),
        "judged": Cases(judged, {"good": (5, 9), "bad": (4, 7), "ties": (0, 1)}, draws=3),
        # No multiples of HELD_OUT.
        "corpus": Cases(corpus, {"sites": (8,), "out": (3,), "each": (4,), "B": (22, 33)}, draws=2),
        "filtered": Cases(filtered, {"M": (14,), "B": (13,)}, draws=2),
    },
    checks=(
        shares("shares of n-grams", 3, "hashing", "shares", cases="texts", in_words=of_a_bucket, calls=("features",)),
        shares("words of all "
            "scripts", 1, "hashing", "shares", cases="scripts", in_words=of_a_bucket, calls=("features",)),
        shares("short texts", 1, "hashing", "shares", cases="short", in_words=of_a_bucket, calls=("features",)),
        Check("loss", 2, "values", {"entry": LOSS, "wrt": WRT}, "output", "logits"),
        Check("gradient of the loss", 1, "values", {"entry": LOSS, "wrt": WRT}, "gradient", "logits"),
        Check("loss of large logits", 1, "values", {"entry": LOSS, "wrt": WRT}, "", "large"),
        Check(
            "fit", 2, "fitting", leaves="fit", cases="data", tolerance=FIT, calls=("fit",),
            advice="Weights that are nearer to 0 than expected mean a fit that stops early, or a penalty that is too "
                "large.",
        ),
        shares("threshold for a recall", 3, "thresholding", "threshold", cases="scored", calls=("choose_threshold",)),
        shares("equal scores", 1, "thresholding", "threshold", cases="tied", calls=("choose_threshold",)),
        shares("precision and recall", 1, "judging", "share", cases="judged", calls=("evaluate",)),
        Check(
            "groups held out", 3, "training", leaves="filter", cases="corpus", tolerance=FIT, calls=("train_filter",),
            advice="`filter` is what `train_filter` returns. The weights come from the groups that are not held out, "
            "and the threshold from those that are.",
        ),
        exact("texts kept", 2, "keeping", "kept", cases="filtered", in_words=of_a_text, calls=("keep",)),
    ),
)  # fmt: skip
