"""NumPy in float64: correct, but cannot be traced."""

import numpy as np


def causal_attention(q, k, v):
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    out = np.zeros_like(q)
    for t in range(len(q)):
        scores = k[: t + 1] @ q[t] / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max())
        out[t] = weights / weights.sum() @ v[: t + 1]
    return out
