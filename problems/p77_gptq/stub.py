"""Problem 77: four bits with calibration. The page is in pages/p77_gptq.md."""

import numpy as np
from jaxtyping import Float64, Int8, UInt8


def gptq(
    W: Float64[np.ndarray, "D F"], X: Float64[np.ndarray, "N D"], bits: int, group: int
) -> tuple[Int8[np.ndarray, "D F"], Float64[np.ndarray, "J F"]]:
    """The codes of a matrix of weights, (D, F), and a scale for each group of rows and
    each column, (J, F), chosen so that X times the restored weights is close to X W."""
    raise NotImplementedError


def pack(codes: Int8[np.ndarray, "D F"]) -> UInt8[np.ndarray, "D/2 F"]:
    """Two codes of 4 bits in each byte, (D/2, F)."""
    raise NotImplementedError


def restore(
    packed: UInt8[np.ndarray, "D/2 F"], scale: Float64[np.ndarray, "J F"], group: int
) -> Float64[np.ndarray, "D F"]:
    """The weights that packed codes and their scales stand for, (D, F)."""
    raise NotImplementedError
