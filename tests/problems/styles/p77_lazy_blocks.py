"""Blocks of rows, as in the program of the paper: rows below a block are corrected once for all of it. The factor comes
from a triangular solve, and SciPy inverts."""

import numpy as np
import scipy.linalg


def rounded(rows, step, top):
    return np.clip(np.round(rows / step), -top, top)


def gptq(W, X, bits, group):
    D, F = W.shape
    top = 2 ** (bits - 1) - 1
    H = np.einsum("nd,ne->de", X, X)
    dead = np.flatnonzero(np.diag(H) == 0)
    H[np.diag_indices(D)] += 0.01 * np.trace(H) / D
    reverse = scipy.linalg.cholesky(H[::-1, ::-1])  # R'R of the reversed matrix
    factor = scipy.linalg.solve_triangular(reverse, np.eye(D))[::-1, ::-1].T
    W = np.array(W)
    W[dead] = 0.0
    restored, scale = np.zeros((D, F)), []
    codes = np.zeros((D, F), dtype=np.int8)
    for begin in range(0, D, group):
        end = min(begin + group, D)
        block = W[begin:end]
        peak = np.amax(np.abs(block), axis=0)
        scale.append(np.divide(peak, top, out=np.ones(F), where=peak != 0))
        losses = np.zeros_like(block)
        for i in range(end - begin):
            d = begin + i
            codes[d] = rounded(block[i], scale[-1], top)
            restored[d] = codes[d] * scale[-1]
            losses[i] = (block[i] - restored[d]) / factor[d, d]
            block[i + 1 :] -= factor[d, d + 1 : end][:, np.newaxis] @ losses[i][np.newaxis]
        W[end:] -= factor[begin:end, end:].T @ losses
    return codes, np.vstack(scale)


def pack(codes):
    bits = np.unpackbits(codes.view(np.uint8)[..., None], axis=-1, bitorder="little")[..., :4]
    return np.packbits(np.concatenate([bits[::2], bits[1::2]], axis=-1), axis=-1, bitorder="little")[..., 0]


def restore(packed, scale, group):
    low = (packed << 4).view(np.int8) >> 4
    high = packed.view(np.int8) >> 4
    codes = np.concatenate([low[:, None], high[:, None]], axis=1).reshape(-1, packed.shape[1])
    pieces = np.split(codes, range(group, len(codes), group))
    return np.concatenate([piece * step for piece, step in zip(pieces, scale, strict=True)])
