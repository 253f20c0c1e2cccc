"""Logarithms of the gamma function, masks in place of sorting, and a matrix of groups."""

import numpy as np
from scipy.special import gammaln, stdtrit


def log_choose(n, k):
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def all_from(j, n, N):
    j = np.asarray(j, float)
    return np.where(j >= n, np.exp(log_choose(np.maximum(j, n), n) - log_choose(N, n)), 0.0)


def pass_at_k(n, c, k):
    return 1 - all_from(n - c, k, n).mean()


def majority(answers):
    read = np.array([answer for answer in answers if answer is not None], int)
    if not len(read):
        return None
    values, first, counts = np.unique(read, return_index=True, return_counts=True)
    return int(values[np.lexsort((first, -counts))[0]])


def best_of_n(scores, correct, n):
    order = np.argsort(scores)
    sorted_scores = scores[order]
    below = np.searchsorted(sorted_scores, sorted_scores, side="left")
    up_to = np.searchsorted(sorted_scores, sorted_scores, side="right")
    N = len(scores)
    each = (all_from(up_to, n, N) - all_from(below, n, N)) / (up_to - below)
    return each[correct[order]].sum()


def paired_interval(a, b, groups):
    d = a.mean(-1) - b.mean(-1)
    same = groups[:, None] == groups[None, :]  # (P, P): the covariance within groups
    r = d - d.mean()
    G = np.unique(groups).size
    variance = r @ same @ r / len(d) ** 2
    half = np.sqrt(variance / (1 - 1 / G)) * stdtrit(G - 1.0, 0.975)
    return d.mean(), d.mean() - half, d.mean() + half
