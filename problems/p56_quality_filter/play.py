"""Problem 56, played: a filter for a crawl of stories, menus and lists, and the leak that makes it look better than it
is."""

import random
from collections.abc import Iterator

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Story, Table, Token
from harness.data.pocket import TOYS, stories
from problems.p56_quality_filter.problem import bucket

SITES, EACH, B, SEED, L2, RECALL = 48, 8, 512, 7, 3e-4, 0.8
NEW = 40  # sites that come later
MENU = "home login cart menu search contact about share follow subscribe newsletter cookies accept next more".split()
SELLING = "buy cheap free best price offer deal order today only click here now win discount delivery".split()


def play(module: LearnerModule) -> Exhibits:
    """What the scores look at, the curve of thresholds, and whether the recall that was promised is what new sites
    give."""
    rng = random.Random(3)  # noqa: S311
    source = stories(SITES * EACH + NEW * EACH)
    texts, labels, groups = _crawl(source, SITES, rng, "site")
    new_texts, new_labels, _ = _crawl(source, NEW, rng, "later")
    weights, bias, threshold = module.train_filter(texts, labels, groups, B, SEED, L2, RECALL)
    weights = np.asarray(weights, float)

    def scores_of(some: list[str]) -> np.ndarray:
        return np.stack([np.asarray(module.features(text, B, SEED), float) for text in some]) @ weights + float(bias)

    scores, new_scores = scores_of(texts), scores_of(new_texts)
    kept = np.asarray(module.keep(new_texts, weights, float(bias), float(threshold), SEED), bool)
    yield _examples(new_texts, new_labels, new_scores, kept)
    yield _words(module, new_texts[int(np.argmin(np.abs(new_scores - np.median(new_scores))))], weights)
    held_out = np.array([bucket(group, SEED, 4) == 0 for group in groups])
    parts = (("the fit's own", scores[~held_out], labels[~held_out]), ("held out", scores[held_out], labels[held_out]),
             ("sites that come later", new_scores, new_labels))  # fmt: skip
    curves = [_curve(module, some, own) for _, some, own in parts]
    fit, out, later = (float(np.nanmean(precision)) for _, precision in curves)
    yield Lines(
        "Precision at each recall",
        tuple(Line(name, *curve) for (name, _, _), curve in zip(parts, curves, strict=True)),
        f"The mean precision is {fit:.0%} on the texts of the fit, {out:.0%} on held-out sites and {later:.0%} on "
        "later ones. "
        + (
            "The texts of the fit look better, because the weights have seen their labels."
            if fit > out + 0.02
            else "The texts of the fit should look better than the held-out ones, whose labels the weights must not "
            "have seen."
        ),
        x="recall",
        y="precision",
    )
    shares = [float(np.mean(some[own == 1] >= threshold)) for _, some, own in parts]
    off = abs(shares[1] - RECALL)
    yield Bars(
        f"The share of good texts that your threshold keeps; wanted: {RECALL:.0%}",
        tuple(Bar(name, share, RECALL) for (name, _, _), share in zip(parts, shares, strict=True)),
        "recall",
        f"Your threshold keeps {shares[1]:.0%} of the good texts of held-out sites, as wanted, and {shares[2]:.0%} of "
        "new ones."
        if off < 0.05
        else f"Your threshold keeps {shares[1]:.0%} of the good texts of held-out sites. It was not chosen there, or "
        "not so.",
        names=("yours", "wanted"),
    )


def _crawl(source: Iterator[str], sites: int, rng: random.Random, name: str) -> tuple[list[str], np.ndarray, list[str]]:
    """Texts of sites: stories with pieces of menus, and menus with pieces of stories. One label in ten is wrong."""
    texts, labels, groups = [], [], []
    for number in range(sites):
        own = [f"{rng.choice(TOYS)}{name[0]}{number}" for _ in range(3)]
        taste = rng.random()
        for _ in range(EACH):
            sentences = next(source).replace("\n\n", " ").split(". ")
            good = rng.random() < 0.25 + 0.5 * taste
            noise = rng.sample(MENU, rng.randrange(2, 9)) + rng.sample(SELLING, rng.randrange(1, 6)) + own
            rng.shuffle(noise)
            count = rng.choice((1, 2, 3, 6)) if good else rng.choice((0, 1, 1, 2))
            text = " ".join(noise[: 7 if good else None]) + " | " + ". ".join(sentences[:count])
            texts.append(text.strip(" |"))
            labels.append(int(good != (rng.random() < 0.1)))
            groups.append(f"{name}{number}")
    return texts, np.array(labels, np.int32), groups


def _examples(texts: list[str], labels: np.ndarray, scores: np.ndarray, kept: np.ndarray) -> Table:
    """The best and the worst texts of new sites, and those at the threshold."""
    order = np.argsort(-scores)
    edge = int(kept.sum())
    rows = [
        (f"{scores[i]:.1f}", "kept" if kept[i] else "dropped", "good" if labels[i] else "bad", texts[i][:150])
        for i in (*order[:2], *order[max(2, edge - 2) : edge + 2], *order[-2:])
    ]
    right = float(np.mean(labels[kept])) if kept.any() else 0.0
    return Table(
        f"{len(texts)} texts of sites that came later, of which your filter keeps {int(kept.sum())}",
        ("score", "", "label", "text"),
        tuple(rows),
        f"{right:.0%} of the kept texts are good; of all texts, {labels.mean():.0%} are. Words such as "
        "`druml22` are made up: only site 22 has this one."
        + ("" if right > labels.mean() else " Your filter keeps the wrong side."),
    )


def _words(module: LearnerModule, text: str, weights: np.ndarray) -> Story:
    """A text, shaded by what its words add to the score."""
    parts = text.split(" ")[:80]
    values = [float(np.asarray(module.features(part, B, SEED), float) @ weights) for part in parts]
    strongest = max(map(abs, values)) or 1.0
    return Story(
        "What your filter sees in a text near the middle",
        tuple(Token(part + " ", abs(value), int(value < 0)) for part, value in zip(parts, values, strict=True)),
        "The shade is what a word alone adds to the score, or takes from it. Words that are new share a bucket with "
        "others.",
        meaning="logits",
        strongest=strongest,
        kinds=("for a good text", "for a bad one"),
    )


def _curve(module: LearnerModule, scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision at 20 thresholds."""
    found = [
        module.evaluate(scores, labels, float(x)) for x in np.quantile(scores[labels == 1], np.linspace(0.95, 0, 20))
    ]
    precision, recall = np.array(found, float).T
    return recall, precision
