"""Words as numbers and runs as rows of an array: NumPy finds the rows of a document among the sorted rows of all
questions by their hashes, and then compares the words."""

import re
import unicodedata

import numpy as np
from scipy.special import stdtr


def words(text):
    cut = re.sub(r"[\W_]+", " ", unicodedata.normalize("NFKC", text).lower())
    return cut.split(" ")[cut.startswith(" ") : len(cut.split(" ")) - cut.endswith(" ")] if cut.strip() else []


def rows(numbers, n):
    if len(numbers) < n:
        return np.zeros((0, n), np.int64)
    return np.lib.stride_tricks.sliding_window_view(np.array(numbers, np.int64), n)


def scan(documents, tests, n, share, reach):
    known = {}
    questions = [[known.setdefault(word, len(known)) for word in words(question)] for question, _ in tests]
    answers = [[known.setdefault(word, len(known)) for word in words(answer)] for _, answer in tests]
    runs = np.concatenate([rows(question, n) for question in questions])
    owner = np.repeat(np.arange(len(tests)), [max(0, len(question) - n + 1) for question in questions])
    offset = np.concatenate([np.arange(max(0, len(question) - n + 1)) for question in questions])
    weights = np.random.default_rng(0).integers(1, 1 << 62, n) | 1
    hashes = (runs * weights).sum(axis=1)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    shares = np.zeros(len(tests))
    leaks = np.array([-1 if len(question) < n else 0 for question in questions])
    for document in documents:
        numbers = [known.get(word, -1) for word in words(document)]
        text = rows(numbers, n)
        hashed = (text * weights).sum(axis=1)
        first, last = (np.searchsorted(ordered, hashed, side=side) for side in ("left", "right"))
        hits = [
            (owner[row], offset[row], place)
            for place in np.flatnonzero(first < last)
            for row in order[first[place] : last[place]]
            if (runs[row] == text[place]).all()
        ]
        for test in {test for test, _, _ in hits}:
            offsets = np.array([at for other, at, _ in hits if other == test])
            length = len(questions[test])
            part = len(np.unique(offsets[:, None] + np.arange(n))) / length
            shares[test] = max(shares[test], part)
            if part >= share:
                answer = answers[test]
                begins = {
                    place - at + length + more for other, at, place in hits if other == test for more in range(reach)
                }
                after = [numbers[begin : begin + len(answer)] for begin in begins]
                leaks[test] = max(leaks[test], 2 if answer and answer in after else 1)
    return shares, leaks


def exposure(canaries, others):
    ranks = 1 + (others[None, :] <= canaries[:, None]).sum(axis=1)
    return -np.log2(ranks / (others.size + 1))


def order_test(canonical, shuffled):
    gain = np.mean(canonical[:, None] - shuffled, axis=1)
    S = gain.size
    return stdtr(S - 1, -np.sqrt(S) * gain.mean() / np.sqrt(gain.var(ddof=1)))


def holm(p_values):
    left = p_values[:, None] > p_values[None, :]  # smaller ones, of which equal ones do not count
    N = p_values.size
    raised = p_values * (N - left.sum(axis=1))
    at_most = p_values[None, :] <= p_values[:, None]
    return np.minimum(1.0, np.where(at_most, raised, 0.0).max(axis=1))
