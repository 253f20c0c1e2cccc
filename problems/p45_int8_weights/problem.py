"""Problem 45: weights in int8, an integer matrix product, and a bound on its error."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem


def rounded_clearly(rng: Any, channels: int, length: int, zeros: int = 0) -> Any:
    """Numbers (channels, length) whose codes are far from a tie, so that rounding errors decide none.

    The first `zeros` channels are 0. The scales of the channels differ by up to
    a factor of 30. The largest number of a channel is positive or negative in turn.
    """
    codes = rng.integers(-126, 127, (channels, length)) + rng.uniform(-0.4, 0.4, (channels, length))
    codes = codes.clip(-126, 126)
    codes[range(channels), rng.integers(0, length, channels)] = [127 * (-1) ** channel for channel in range(channels)]
    scale = 0.01 * 30 ** rng.permutation(
        rng.uniform(0, 0.2, channels) + [channel / channels for channel in range(channels)]
    )
    codes[:zeros] = 0
    return (scale[:, None] * codes).astype("float32")


def kernels(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"kernel": rounded_clearly(rng, sizes["F"], sizes["D"], sizes.get("zeros", 0)).T.copy()}


def faint(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A kernel with columns of zeros, and a last column of numbers that are nearly 0."""
    kernel = kernels(sizes, rng)["kernel"]
    kernel[:, -1] *= 1e-30 / abs(kernel[:, -1]).max()
    return {"kernel": kernel}


def products(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    T, D, F = sizes["T"], sizes["D"], sizes["F"]
    return {
        "x": rounded_clearly(rng, T, D, sizes.get("zeros", 0)),
        "codes": rng.integers(-127, 128, (D, F)).astype("int8"),
        "scale": (0.01 * 10 ** rng.uniform(-0.5, 0.5, F)).astype("float32"),
    }


def operations(case: Case, difference: Difference) -> str:
    T, D = case.values["x"].shape
    pairs = T * D * len(case.values["scale"])
    if difference.path.endswith("int8"):
        return (
            f"products of two int8 operands with an int32 result must multiply all T · D · F = {pairs:,} pairs of "
            "codes, and they multiply fewer"
        )
    return f"besides products of int8 numbers, the program takes at least T · D · F / 4 = {pairs // 4:,} operations"


KERNEL = {"D": (3, 5), "F": (4, 7)}
PRODUCT = {"T": (5, 6), "D": (13,), "F": (14,)}

PROBLEM = Problem(
    title="Weights in int8",
    minutes=60,
    builds_on=(6, 19, 23),
    without={"axes": "a kernel is a matrix: all convolutions of a language model, and its tables, are left in float32"},
    entries=(
        Entry("quantize", ("kernel",), returns=("codes", "scale")),
        Entry("int8_matmul", ("x", "codes", "scale")),
        Entry("error_bound", ("x", "codes", "scale")),
    ),
    cases={
        "kernels": Cases(kernels, KERNEL, draws=2, covers=("coprime",)),
        "column of zeros": Cases(faint, {"D": (3,), "F": (4,), "zeros": (1, 2)}, draws=1, covers=("magnitudes",)),
        "one column": Cases(kernels, {"D": (5, 6), "F": (1,)}, draws=1, covers=("one",)),
        "products": Cases(products, PRODUCT, draws=2),
        "one row": Cases(products, {"T": (1,), "D": (11, 9), "F": (1,)}, draws=1, covers=("one",)),
        "row of zeros": Cases(products, {"T": (5,), "D": (12,), "F": (14,), "zeros": (1, 2)}, draws=2),
        # D and F are so large that a tenth of T * D * F operations quantize x and scale the sums, also with diagonal
        # matrices.
        "large": Cases(products, {"T": (8, 9), "D": (4096,), "F": (128, 120)}, draws=1),
    },
    checks=(
        Check("scale of each column", 1, "quantizing", leaves="scale", cases="kernels"),
        exact("codes", 2, "quantizing", "codes", cases="kernels", traced=True),
        Check("column of zeros", 1, "quantizing", cases="column of zeros"),
        Check("one column", 1, "quantizing", cases="one column"),
        Check("product", 2, "multiplying", leaves="y", cases="products"),
        Check("one row", 1, "multiplying", leaves="y", cases="one row"),
        Check("row of zeros", 1, "multiplying", leaves="y", cases="row of zeros"),
        exact(
            "product of int8 numbers", 2, "multiplying", "program.products", cases="large", in_words=operations,
            advice="Give `jax.lax.dot` two int8 arrays and `preferred_element_type=jnp.int32`, and multiply the "
            "finished sums by the scales. No other product may multiply the codes.",
        ),
        Check("error bound", 2, "bounding", leaves="bound", cases="row of zeros", traced=True),
    ),
)  # fmt: skip
