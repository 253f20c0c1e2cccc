"""Problem 84, reference: overlap with a stream, canaries, the order of a test set, and Holm's correction."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtr

SHORT, CLEAN, QUESTION, ANSWERED = -1, 0, 1, 2


def words(text: str) -> list[str]:
    """Runs of letters and digits, of the text in one form of Unicode and in lower case."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).lower())


def scan(
    documents: Iterable[str], tests: Sequence[tuple[str, str]], n: int, share: float, reach: int
) -> tuple[Float[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """One pass over the documents, with an index of the questions."""
    questions, answers = ([words(text) for text in texts] for texts in zip(*tests, strict=True))
    index = defaultdict(list)
    for test, question in enumerate(questions):
        for offset, run in enumerate(_runs(question, n)):
            index[run].append((test, offset))
    shares = np.zeros(len(tests))
    leaks = np.array([SHORT if len(question) < n else CLEAN for question in questions])
    for document in documents:
        text = words(document)
        if index.keys().isdisjoint(_runs(text, n)):
            continue  # nearly all documents, and the loop is in C
        covered, ends = defaultdict(set), defaultdict(set)
        for place, run in enumerate(_runs(text, n)):
            for test, offset in index.get(run, ()):
                covered[test].update(range(offset, offset + n))
                ends[test].add(place - offset + len(questions[test]))
        for test, found in covered.items():
            part = len(found) / len(questions[test])
            shares[test] = max(shares[test], part)
            if part >= share:
                answered = any(_begins_near(text, answers[test], end, reach) for end in ends[test])
                leaks[test] = max(leaks[test], ANSWERED if answered else QUESTION)
    return shares, leaks


def exposure(canaries: Float[np.ndarray, "N"], others: Float[np.ndarray, "M"]) -> Float[np.ndarray, "N"]:
    """Carlini et al. 2019: the bits by which a canary's rank is better than that of a random one."""
    ranks = 1 + np.searchsorted(np.sort(others), canaries, side="right")
    return np.log2((1 + len(others)) / ranks)


def order_test(canonical: Float[np.ndarray, "S"], shuffled: Float[np.ndarray, "S M"]) -> float:
    """Oren et al. 2023: the shards' own order against the mean of random ones, by Student's test."""
    gain_S = canonical - shuffled.mean(axis=1)
    S = len(gain_S)
    t = gain_S.mean() / (gain_S.std(ddof=1) / np.sqrt(S))
    return float(stdtr(S - 1, -t))


def holm(p_values: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """Holm 1979: the smallest p-value times N, the next one times N - 1, and so on, never falling."""
    order = np.argsort(p_values)
    N = len(p_values)
    adjusted = np.empty(N)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p_values[order] * np.arange(N, 0, -1)))
    return adjusted


def _runs(text: list[str], n: int) -> Iterator[tuple[str, ...]]:
    """All runs of n words."""
    return zip(*(text[start:] for start in range(n)), strict=False)


def _begins_near(text: list[str], answer: list[str], end: int, reach: int) -> bool:
    """Whether the answer begins at one of the `reach` places from `end` on."""
    return bool(answer) and any(text[place : place + len(answer)] == answer for place in range(end, end + reach))
