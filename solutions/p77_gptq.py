"""Problem 77, reference: four bits with calibration."""

import numpy as np
from jaxtyping import Float64, Int8, UInt8

DAMPING = 0.01  # times the mean of the diagonal


def gptq(
    W: Float64[np.ndarray, "D F"], X: Float64[np.ndarray, "N D"], bits: int, group: int
) -> tuple[Int8[np.ndarray, "D F"], Float64[np.ndarray, "J F"]]:
    """Rounds one row after another and corrects the rows below it (Frantar et al. 2022, algorithm 1, without its
    blocks)."""
    D, largest = len(W), 2 ** (bits - 1) - 1
    H_DD = X.T @ X
    dead_D = np.diag(H_DD) == 0
    H_DD = H_DD + DAMPING * np.mean(np.diag(H_DD)) * np.eye(D)
    U_DD = np.linalg.cholesky(np.linalg.inv(H_DD)).T  # row d holds what the rows below d need when d is fixed
    rest_DF = np.where(dead_D[:, None], 0.0, W)
    codes_DF, scales = np.zeros(W.shape, np.int8), []
    for d in range(D):
        if d % group == 0:
            peak_F = np.max(np.abs(rest_DF[d : d + group]), axis=0)
            scales.append(np.where(peak_F > 0, peak_F / largest, 1.0))
        codes_DF[d] = np.clip(np.round(rest_DF[d] / scales[-1]), -largest, largest)
        error_F = rest_DF[d] - codes_DF[d] * scales[-1]
        rest_DF[d + 1 :] -= np.outer(U_DD[d, d + 1 :] / U_DD[d, d], error_F)
    return codes_DF, np.stack(scales)


def pack(codes: Int8[np.ndarray, "D F"]) -> UInt8[np.ndarray, "D/2 F"]:
    """The low half of a byte is the code of an even row, the high half that of the next one."""
    nibbles = codes.astype(np.uint8) & 15
    return nibbles[::2] | nibbles[1::2] << 4


def restore(
    packed: UInt8[np.ndarray, "D/2 F"], scale: Float64[np.ndarray, "J F"], group: int
) -> Float64[np.ndarray, "D F"]:
    """Half a byte above 7 is a code below 0."""
    nibbles_DF = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1, packed.shape[1])
    codes_DF = (nibbles_DF.astype(np.int8) ^ 8) - 8
    return codes_DF * np.repeat(scale, group, axis=0)[: len(codes_DF)]
