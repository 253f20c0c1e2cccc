"""Whole numbers and loops: `math.comb`, a product in Python, statistics of the standard library."""

import math
import statistics
from collections import defaultdict

from scipy.special import stdtrit


def pass_at_k(n, c, k):
    found = [1 - math.comb(n - int(right), k) / math.comb(n, k) for right in c]
    return math.fsum(found) / len(found)


def majority(answers):
    read = [answer for answer in answers if answer is not None]
    winner, most = None, 0
    for answer in dict.fromkeys(read):
        if read.count(answer) > most:
            winner, most = answer, read.count(answer)
    return winner


def best_of_n(scores, correct, n):
    samples = sorted(zip(scores.tolist(), correct.tolist(), strict=True), key=lambda pair: -pair[0])
    total, chance, place = 0.0, 1.0, 0  # `chance`: all n are among the samples from `place` on
    while place < len(samples) and chance:
        tied, before = [], chance
        while place < len(samples) and (not tied or samples[place][0] == samples[place - 1][0]):
            left = len(samples) - place
            chance *= max(left - n, 0) / left
            tied.append(samples[place][1])
            place += 1
        total += (before - chance) * sum(tied) / len(tied)
    return total


def paired_interval(a, b, groups):
    d = [statistics.fmean(left) - statistics.fmean(right) for left, right in zip(a.tolist(), b.tolist(), strict=True)]
    mean = statistics.fmean(d)
    sums = defaultdict(float)
    for group, each in zip(groups.tolist(), d, strict=True):
        sums[group] += each - mean
    degrees = len(sums) - 1
    squares = math.fsum(each**2 for each in sums.values())
    error = math.sqrt((degrees + 1) / degrees * squares) / len(d)
    margin = float(stdtrit(degrees, 0.975)) * error
    return mean, mean - margin, mean + margin
