"""One string for each text: runs are parts of it, cut at the places of its words; statistics by sorting and SciPy."""

import re
import unicodedata

import numpy as np
from scipy import stats

WORD = re.compile(r"[^\W_]+")


def words(text):
    return WORD.findall(unicodedata.normalize("NFKC", text).lower())


class Text:
    """The words of a text in one string, each with a space before and behind it."""

    def __init__(self, raw):
        self.words = words(raw)
        self.line = " " + "".join(word + " " for word in self.words)
        self.places = [0]  # of the space before each word, and at the end
        for word in self.words:
            self.places.append(self.places[-1] + len(word) + 1)

    def __len__(self):
        return len(self.words)

    def part(self, first, last):
        return self.line[self.places[first] : self.places[last] + 1]

    def runs(self, n):
        return [self.part(first, first + n) for first in range(len(self) - n + 1)]


def scan(documents, tests, n, share, reach):
    pairs = [(Text(question), Text(answer)) for question, answer in tests]
    index = {}
    for number, (question, _) in enumerate(pairs):
        for offset, run in enumerate(question.runs(n)):
            index.setdefault(run, []).append((number, offset))
    shares = [0.0] * len(pairs)
    leaks = [-1 if len(question) < n else 0 for question, _ in pairs]
    for raw in documents:
        document = Text(raw)
        seen = {}
        for place, run in enumerate(document.runs(n)):
            for number, offset in index.get(run, []):
                seen.setdefault(number, []).append((offset, place))
        for number, hits in seen.items():
            question, answer = pairs[number]
            marks = bytearray(len(question))
            for offset, _ in hits:
                marks[offset : offset + n] = b"\x01" * n
            part = sum(marks) / len(question)
            shares[number] = max(part, shares[number])
            if part < share:
                continue
            leaks[number] = max(leaks[number], 1)
            for offset, place in hits:
                end = place + len(question) - offset
                last = min(end + reach + len(answer) - 1, len(document))
                if len(answer) and end < last and answer.line in document.part(end, last):
                    leaks[number] = 2
    return shares, leaks


def exposure(canaries, others):
    better = [np.count_nonzero(others <= loss) for loss in canaries]
    return np.log2(1 + others.size) - np.log2(1 + np.array(better))


def order_test(canonical, shuffled):
    gains = [own - np.mean(row) for own, row in zip(canonical, shuffled, strict=True)]
    return stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue


def holm(p_values):
    ranked = sorted(enumerate(p_values.tolist()), key=lambda pair: pair[1])
    found, so_far = {}, 0.0
    for place, (number, p_value) in enumerate(ranked):
        so_far = max(so_far, min(1.0, p_value * (len(ranked) - place)))
        found[number] = so_far
    return [found[number] for number in range(len(ranked))]
