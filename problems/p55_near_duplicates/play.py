"""Problem 55, played: a crawl of stories with copies, which the learner's functions find, and what the copies do to a
loss."""

import difflib
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from grader.authoring import BadOutputError
from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Table
from harness.data.pocket import stories
from problems.stage.weights import FIRST_VALIDATION

COUNT, COPIES, HELD_OUT = 240, 80, 60
N, P, BANDS, PRIME = 3, 96, 24, 2**31 - 1
SWAPS = ("happy", "little", "big", "sad", "red", "very", "day", "home", "was", "said")
SHOWN, EDITS, EDGES = 6, 5, np.linspace(0, 1, 11)


def play(module: LearnerModule) -> Exhibits:
    """Clusters of copies, how many pairs the bands find, and the loss on stories whose copies were in the training
    data."""
    rng, generator = random.Random(5), np.random.default_rng(5)  # noqa: S311
    a, b = generator.integers(1, PRIME, P), generator.integers(0, PRIME, P)
    crawl = list(stories(COUNT))
    copies = [_copied(crawl[number % 25], rng, number // 16) for number in range(COPIES)]
    held_out = list(stories(HELD_OUT, start=FIRST_VALIDATION))
    leaked = [_copied(story, rng, number % 4) for number, story in enumerate(held_out) if number % 2]
    texts = [*crawl, *copies, *leaked, *held_out]
    sets = [module.shingles(text, N) for text in texts]
    if not all(isinstance(each, set | frozenset) for each in sets):
        raise BadOutputError("`shingles` must return a set")
    signatures = np.stack([np.asarray(module.minhash(each, a, b)) for each in sets])
    candidates = module.candidate_pairs(signatures, BANDS)
    alike = [pair for pair in candidates if _similarity(sets, *pair) >= 0.5]
    labels = np.array(module.clusters(alike, len(texts)))
    yield _largest(texts, labels, sets)
    yield _curve(module, sets, candidates, len(crawl) + len(copies))
    train = range(len(texts) - HELD_OUT)
    clean = [place for place in train if labels[place] not in set(labels[len(train) :].tolist())]
    truth = range(COUNT + COPIES)
    losses = [_loss([texts[place] for place in some], held_out) for some in (train, clean, truth)]
    gone = len(train) - len(clean)
    yield Bars(
        f"A model of word pairs on {HELD_OUT} held-out stories, half of which were copied into its training data",
        (Bar("with the copies", losses[0], losses[2]), Bar("without those you found", losses[1], losses[2])),
        "nats per word",
        f"{gone} texts that are near-duplicates of held-out ones were dropped; {len(leaked)} had been copied there. "
        + (
            "The loss is what it would be without any copy."
            if abs(losses[1] - losses[2]) < 0.25 * abs(losses[0] - losses[2])
            else "The loss is still not what it would be without copies."
        ),
        names=("loss", "no copies"),
    )


def _copied(story: str, rng: random.Random, changes: int) -> str:
    """A story with another header, some words changed, and another end."""
    words = story.split(" ")
    for _ in range(3 * changes):
        words[rng.randrange(len(words))] = rng.choice(SWAPS)
    return (
        f"Story {rng.randrange(1000)} | " + " ".join(words) + rng.choice(["", " The end.", " Read more stories here!"])
    )


def _similarity(sets: Sequence[set[Any]], left: int, right: int) -> float:
    return len(sets[left] & sets[right]) / max(1, len(sets[left] | sets[right]))


def _largest(texts: list[str], labels: np.ndarray, sets: Sequence[set[Any]]) -> Table:
    """The largest clusters, with the differences between the first text and the one that is least like it."""
    sizes = Counter(labels.tolist())
    rows = []
    for label, size in sizes.most_common(SHOWN):
        first, *others = np.flatnonzero(labels == label).tolist()
        other = min(others, key=lambda place: _similarity(sets, first, place), default=first)
        similarity = f"{_similarity(sets, first, other):.2f}"
        rows.append((str(size), similarity, " · ".join(_differences(texts[first], texts[other])) or "no difference"))
    several = sum(size > 1 for size in sizes.values())
    return Table(
        f"The largest of {several} clusters among {len(texts)} texts",
        ("texts", "similarity", "how another text differs from the first one"),
        tuple(rows),
        "The copies have another header, some other words, and another end. Your functions have found them."
        if several > HELD_OUT // 3
        else "The crawl has more than a hundred copies. Your functions have found few of them.",
    )


def _differences(one: str, other: str) -> list[str]:
    """What changes from one text to another: words that come in, go, or replace others; the first and the last few."""
    left, right = one.split(" "), other.split(" ")
    parts = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        gone, new = " ".join(left[i:j]), " ".join(right[k:m])
        if kind != "equal":
            parts.append(
                f"new: {new[:40]}" if not gone else f"gone: {gone[:40]}" if not new else f"{gone[:30]} → {new[:30]}"
            )
    return parts if len(parts) <= EDITS else [*parts[: EDITS - 2], "…", parts[-1]]


def _curve(module: LearnerModule, sets: Sequence[set[Any]], candidates: Any, count: int) -> Lines:
    """The share of pairs that are candidates by their similarity, beside the learner's probability."""
    pairs = list(combinations(range(count), 2))
    similar = np.array([_similarity(sets, *pair) for pair in pairs])
    found = np.array([pair in candidates for pair in pairs])
    place = np.minimum(9, 10 * similar).astype(int)
    total = np.bincount(place, minlength=10)
    share = np.bincount(place, found, 10)[total > 0] / total[total > 0]
    x, grid = (EDGES[1:] + EDGES[:-1])[total > 0] / 2, np.linspace(0, 1, 41)
    said = np.asarray(module.found_probability(grid, BANDS, P // BANDS))
    compared, expected = int(found.sum()), float(np.interp(similar, grid, said).sum())
    return Lines(
        f"Which pairs become candidates, with {BANDS} bands of {P // BANDS} rows",
        (Line("measured", x, share), Line("your probability", grid, said)),
        f"{compared:,} of {len(pairs):,} pairs are compared; your probability says {expected:,.0f}. "
        + (
            "Pairs that are alike meet in some band; nearly all others never do."
            if 0.7 * expected - 20 < compared < 1.4 * expected + 20
            else "The two should be close: your bands do not find what your probability says."
        ),
        x="similarity",
        y="share of pairs",
    )


def _loss(train: list[str], held_out: list[str]) -> float:
    """The loss of a model that counts pairs of words, mixed with single words."""
    singles: Counter[str] = Counter()
    pairs: Counter[tuple[str, ...]] = Counter()
    for text in train:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        singles.update(words)
        pairs.update(zip(words, words[1:], words[2:], strict=False))
        pairs.update(pairwise(words))
    total, losses = sum(singles.values()), []
    for text in held_out:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        for first, second, third in zip(words, words[1:], words[2:], strict=False):
            one = (singles[third] + 1) / (total + len(singles) + 1)
            two = pairs[second, third] / max(1, singles[second])
            three = pairs[first, second, third] / max(1, pairs[first, second])
            losses.append(-np.log(0.6 * three + 0.3 * two + 0.1 * one))
    return float(np.mean(losses))
