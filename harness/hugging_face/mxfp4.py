"""Reads the blocks of four bits in which gpt-oss stores its experts: MXFP4 (Open Compute Project 2023, section 6.3).

A block is 32 numbers of one input axis with one power of two as their scale. The file has a tensor `NAME_blocks` of
bytes (E, out, blocks, 16), each with two numbers, the first in its lower half, and `NAME_scales` (E, out, blocks).
"""

import numpy as np

BLOCK = 32  # numbers with one scale
BLOCKS, SCALES = "_blocks", "_scales"
METHOD = "mxfp4"
_BIAS = 127  # of the exponents
# The numbers of the codes 0 to 15: sign, two bits of the exponent, one of the fraction
_NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([_NUMBERS, -_NUMBERS])


def decoded(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The numbers `(E, in, out)` of bytes `(E, out, in / 32, 16)` and exponents `(E, out, in / 32)`, as float32."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], BLOCK)
    numbers = np.ldexp(E2M1[codes], scales[..., None].astype(np.int32) - _BIAS)
    return np.ascontiguousarray(numbers.reshape(*blocks.shape[:-2], -1).swapaxes(-1, -2))


def shape_of(blocks: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of the numbers; None if these are no shapes of blocks and their scales."""
    if len(blocks) < 3 or blocks[:-1] != scales or blocks[-1] != BLOCK // 2:
        return None
    return (*blocks[:-3], blocks[-2] * BLOCK, blocks[-3])
