"""The inverse is kept and reduced by one row after another, as in Optimal Brain Quantization. Bytes by arithmetic."""

import numpy as np


def gptq(W, X, bits, group):
    (D, F), top = W.shape, (1 << bits - 1) - 1
    hessian = 2 / len(X) * sum(np.outer(x, x) for x in X)  # a factor changes nothing
    unused = ~X.any(axis=0)
    hessian[np.arange(D), np.arange(D)] += 0.01 * hessian.trace() / D
    inverse, W = np.linalg.inv(hessian), W.copy()
    W[unused] = 0
    codes, scale = np.empty((D, F), int), np.ones((-(-D // group), F))
    for d in range(D):
        number, first = divmod(d, group)
        if not first:
            largest = abs(W[d : d + group]).max(0)
            scale[number, largest > 0] = largest[largest > 0] / top
        codes[d] = np.rint(W[d] / scale[number]).clip(-top, top)
        column = inverse[d + 1 :, d] / inverse[d, d]
        W[d + 1 :] -= column[:, None] * (W[d] - scale[number] * codes[d])
        inverse[d + 1 :, d + 1 :] -= np.outer(column, inverse[d, d + 1 :])
    return codes.astype(np.int8), scale


def pack(codes):
    pairs = codes.astype(int).reshape(-1, 2, codes.shape[1]) % 16
    return (pairs[:, 0] + 16 * pairs[:, 1]).astype(np.uint8)


def restore(packed, scale, group):
    rows = []
    for byte in packed.astype(int):
        high, low = np.divmod(byte, 16)
        rows += [low, high]
    codes = np.array([np.where(row > 7, row - 16, row) for row in rows])
    return np.array([code * scale[d // group] for d, code in enumerate(codes)])
