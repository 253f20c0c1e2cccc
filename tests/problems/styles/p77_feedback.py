"""Each group asks what the roundings above it have left (LDLQ of QuIP): W stays as it is. H = V V', V upper triangular.
Codes are read from a table."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

NIBBLE = np.array([*range(8), *range(-8, 0)], np.int8)


def gptq(W, X, bits, group):
    D, top = len(W), 2 ** (bits - 1) - 1
    H = X.T @ X
    diagonal = H.diagonal().copy()
    W = W * (diagonal > 0)[:, None]
    H += np.diag(np.full(D, 0.01 * diagonal.mean()))
    V = cholesky(H[::-1, ::-1], lower=True)[::-1, ::-1]
    error = np.zeros_like(W)
    codes, scale = [], []
    for start in range(0, D, group):
        rows = slice(start, min(start + group, D))
        begin = W[rows] + solve_triangular(V[rows, rows], V[:start, rows].T @ error[:start], trans="T")
        peak = np.abs(begin).max(axis=0)
        step = np.where(peak == 0, 1, peak / top)
        for d in range(D)[rows]:
            wanted = W[d] + V[:d, d] / V[d, d] @ error[:d]
            code = np.minimum(top, np.maximum(-top, np.round(wanted / step)))
            error[d] = W[d] - code * step
            codes.append(code)
        scale.append(step)
    return np.array(codes, np.int8), np.array(scale)


def pack(codes):
    low, high = codes[0::2].view(np.uint8), codes[1::2].view(np.uint8)
    return np.bitwise_or(low & 0x0F, np.left_shift(high, 4))


def restore(packed, scale, group):
    both = np.empty((2 * packed.shape[0], packed.shape[1]))
    both[0::2], both[1::2] = NIBBLE[packed % 16], NIBBLE[packed // 16]
    return both * scale[np.arange(len(both)) // group]
