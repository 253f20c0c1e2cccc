"""Dictionaries of groups, `np.add.at`, a running product for one problem, and most_common."""

from collections import Counter

import numpy as np
from scipy.special import stdtrit


def pass_at_k(n, c, k):
    def one(right):
        wrong = n - right
        if wrong < k:
            return 1.0
        return 1.0 - float(np.prod(1.0 - k / np.arange(wrong + 1, n + 1)))

    return sum(one(int(right)) for right in c) / len(c)


def majority(answers):
    common = Counter(filter(lambda answer: answer is not None, answers)).most_common(1)
    return common[0][0] if common else None


def best_of_n(scores, correct, n):
    levels, inverse = np.unique(-np.asarray(scores), return_inverse=True)
    size, right = np.zeros(len(levels)), np.zeros(len(levels))
    np.add.at(size, inverse, 1)
    np.add.at(right, inverse, correct)
    above = np.cumsum(size) - size
    N = len(scores)
    steps = np.arange(N)
    none_of_the_top = np.concatenate([[1.0], np.cumprod(np.clip(1 - n / (N - steps), 0, 1))])
    chosen = none_of_the_top[above.astype(int)] - none_of_the_top[(above + size).astype(int)]
    return np.float64((chosen * right / size).sum())


def paired_interval(a, b, groups):
    d = np.average(a, axis=1) - np.average(b, axis=1)
    names = list(dict.fromkeys(groups.tolist()))
    totals = np.array([d[groups == name].sum() - d.mean() * (groups == name).sum() for name in names])
    scaled = totals * len(names) / len(d)  # as if each group was one problem; their mean is 0
    error = scaled.std(ddof=1) / np.sqrt(len(names))
    ends = d.mean() + np.array([-1, 1]) * stdtrit(len(names) - 1, 0.975) * error
    return [d.mean(), *ends]
