"""A loop that stops at the first rejection, in NumPy; it cannot be traced."""

import numpy as np


def acceptance_probabilities(target, draft, drafted):
    pairs = zip(np.asarray(target), np.asarray(draft), np.asarray(drafted), strict=False)
    return np.array([min(1.0, p[x] / q[x]) for p, q, x in pairs], np.float32)


def residual_distribution(target_row, draft_row):
    rest = np.clip(np.asarray(target_row) - np.asarray(draft_row), 0, None)
    return rest / rest.sum() if rest.any() else np.asarray(target_row)


def speculative_step(target, draft, drafted, uniforms):
    accept, emitted = acceptance_probabilities(target, draft, drafted), []
    for n, token in enumerate(np.asarray(drafted)):
        if uniforms[n] >= accept[n]:
            last = residual_distribution(target[n], draft[n])
            break
        emitted.append(int(token))
    else:
        last = np.asarray(target[-1])
    possible = np.flatnonzero(last)
    place = np.searchsorted(np.cumsum(last[possible]), float(uniforms[-1]), side="right")
    emitted.append(int(possible[min(place, len(possible) - 1)]))
    tokens = np.full(len(drafted) + 1, -1, np.int32)
    tokens[: len(emitted)] = emitted
    return tokens, len(emitted)
