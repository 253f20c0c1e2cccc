"""Compares both schedules with their formulas, at all steps of short runs and at some of a long one."""

import math

import numpy as np


def rise(peak, step, warmup):
    return peak * (1e-5 + (1 - 1e-5) * step / max(warmup, 1))


def cosine(peak, step, warmup, end):
    if step < warmup:
        return rise(peak, step, warmup)
    share = min(max((step - warmup) / (end - warmup), 0), 1)
    return peak * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2)


def stable(peak, step, warmup, start, end):
    if step < warmup:
        return rise(peak, step, warmup)
    done = min(max((step - start) / (end - start), 0), 1)
    return peak * (0.1 + 0.9 * (1 - done))


def test(pieces):
    for peak, warmup, end in ((0.3, 4, 12), (2.0, 1, 14), (0.3, 0, 6), (0.01, 2_003, 302_010)):
        schedule = pieces.warmup_cosine(peak, warmup, end)
        for step in {*range(9), end // 3, end - 1, end, end + 5}:
            found, expected = schedule(step), cosine(peak, step, warmup, end)
            assert np.shape(found) == ()
            assert np.allclose(found, expected, rtol=1e-3, atol=1e-6 * peak), (step, warmup, end)
            assert np.allclose(schedule(np.int32(step)), expected, rtol=1e-3, atol=1e-6 * peak)
    for peak, warmup, start, end in ((0.3, 4, 9, 17), (2.0, 1, 6, 9), (0.5, 0, 0, 400_009), (0.2, 3, 3, 8)):
        schedule = pieces.warmup_stable_decay(peak, warmup, start, end)
        for step in {*range(9), start, start + 1, (start + end) // 2, end - 1, end, end + 5}:
            expected = stable(peak, step, warmup, start, end)
            assert np.allclose(schedule(step), expected, rtol=1e-3, atol=1e-6 * peak), (step, warmup, start, end)
