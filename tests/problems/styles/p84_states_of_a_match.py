"""A document word by word: a window of the last n words, and for each test what has matched so far. Whole numbers in
loops, and a class for a test."""

import math
import statistics
import unicodedata
from bisect import bisect_right
from collections import deque

from scipy.special import betainc

SHORT, CLEAN, QUESTION, ANSWERED = range(-1, 3)


def words(text):
    found, word = [], ""
    for letter in unicodedata.normalize("NFKC", text).lower() + " ":
        if letter.isalnum():
            word += letter
        elif word:
            found.append(word)
            word = ""
    return found


class Test:
    def __init__(self, question, answer):
        self.question, self.answer = words(question), words(answer)
        self.share = 0.0
        self.leak = CLEAN

    def read(self, text, hits, n, share, reach):
        """Takes in where its runs are in a document: pairs of the place there and the place in the question."""
        known = set()
        for _, offset in hits:
            known |= {offset + place for place in range(n)}
        part = len(known) / len(self.question)
        self.share = max(self.share, part)
        if part >= share and self.leak != ANSWERED:
            self.leak = ANSWERED if self.follows(text, hits, reach) else QUESTION

    def follows(self, text, hits, reach):
        if not self.answer:
            return False
        for place, offset in hits:
            behind = text[place + len(self.question) - offset :]
            for start in range(min(reach, len(behind))):
                if behind[start] == self.answer[0] and behind[start : start + len(self.answer)] == self.answer:
                    return True
        return False


def scan(documents, tests, n, share, reach):
    kept, first = [Test(*test) for test in tests], {}
    for number, test in enumerate(kept):
        if len(test.question) < n:
            test.leak = SHORT
        for offset in range(len(test.question) - n + 1):
            # A run is looked up by its first word, then by all.
            runs = first.setdefault(test.question[offset], {})
            runs.setdefault(tuple(test.question[offset : offset + n]), []).append((number, offset))
    for document in documents:
        text, window, hits = words(document), deque(maxlen=n), {}
        for end, word in enumerate(text):
            window.append(word)
            if len(window) == n and window[0] in first:
                for number, offset in first[window[0]].get(tuple(window), ()):
                    hits.setdefault(number, []).append((end - n + 1, offset))
        for number, found in hits.items():
            kept[number].read(text, found, n, share, reach)
    return [test.share for test in kept], [test.leak for test in kept]


def exposure(canaries, others):
    ordered = sorted(others.tolist())
    return [math.log2((len(ordered) + 1) / (bisect_right(ordered, loss) + 1)) for loss in canaries.tolist()]


def order_test(canonical, shuffled):
    gains = [own - statistics.fmean(row) for own, row in zip(canonical.tolist(), shuffled.tolist(), strict=True)]
    degrees = len(gains) - 1
    t = statistics.fmean(gains) / (statistics.stdev(gains) / math.sqrt(len(gains)))
    tail = float(betainc(degrees / 2, 0.5, degrees / (degrees + t * t))) / 2  # of both tails, one
    return tail if t > 0 else 1 - tail


def holm(p_values):
    N = len(p_values)
    adjusted = [0.0] * N
    highest = 0.0
    for place, number in enumerate(sorted(range(N), key=lambda number: p_values[number])):
        highest = max(highest, float(p_values[number]) * (N - place))
        adjusted[number] = min(1.0, highest)
    return adjusted
