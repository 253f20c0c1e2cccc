"""Problem 76: blocks of 8 and of 4 bits, their products in both directions, and rounding at random."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

BLOCK = 32
KINDS = ("e4m3", "mxfp4")
LARGEST, BITS, FINEST = {"e4m3": 448.0, "mxfp4": 6.0}, {"e4m3": 3, "mxfp4": 1}, {"e4m3": 2.0**-9, "mxfp4": 0.5}

# The mean of 4,096 draws of a number that is rounded up in half of them is off by 1/128 of a step, and the worst of 200
# such means by four times that. The closest biased one is off by 0.4.
OF_DRAWS = Tolerance(rtol=0.0, atol=0.1, room=1.5)
# Scales are compared by their own size: beside one of 1e26, all others would be 0.
BY_SIZE = Tolerance(rtol=2e-5, atol=0.0)
# The deviation of a sum is known from 4,096 draws to 1 %. With one random number for a block it is five times as large,
# and where blocks or rows share theirs, that of the sum of all blocks is 1.7 times as large or more.
OF_DEVIATIONS = Tolerance(rtol=0.2, atol=0.0, room=3)


def unclear(x: Any, kind: str) -> Any:
    """Which numbers of x (..., D) have a code that rounding errors decide, or a spacing, because they lie near a tie or
    a power of two. XLA for CPUs may round to bfloat16 on the way to fewer bits."""
    import numpy as np

    blocks = x.astype(float).reshape(*x.shape[:-1], -1, BLOCK)
    scales = abs(blocks).max(axis=-1, keepdims=True) / LARGEST[kind]
    scales = 2.0 ** np.ceil(np.log2(scales)) if kind == "mxfp4" else scales
    scaled = abs(blocks / scales).reshape(x.shape)
    fraction, exponent = np.frexp(scaled)
    steps = scaled / np.maximum(2.0 ** (exponent - 1 - BITS[kind]), FINEST[kind])
    return (abs(steps % 1 - 0.5) < 0.04) | (abs(fraction - 0.75) > 0.249)


def rounded_clearly(rng: Any, rows: int, columns: int, kind: str, axes: tuple[int, ...] = (1,)) -> Any:
    """Numbers (rows, columns) whose codes are clear in blocks along each of `axes`. Rows and columns are of different
    sizes, so other blocks have other scales."""
    import numpy as np

    sizes = 2.0 ** (rng.uniform(-2, 2, (rows, 1)) + rng.uniform(-2, 2, (1, columns)))
    x = (sizes * rng.standard_normal((rows, columns))).astype("float32")
    while True:
        redrawn = np.zeros(x.shape, bool)
        for axis in axes:
            redrawn |= unclear(x.T, kind).T if axis == 0 else unclear(x, kind)
        if not redrawn.any():
            return x
        x = np.where(redrawn, sizes * rng.standard_normal(x.shape), x).astype("float32")


def blocks_of(kind: str) -> Any:
    def make(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
        return {"x": rounded_clearly(rng, sizes["N"], sizes["D"], kind), "kind": kind}

    return make


def faint(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One row of three blocks: large numbers, zeros, and numbers that are nearly 0."""
    kind = KINDS[sizes["format"]]
    x = rounded_clearly(rng, 3, BLOCK, kind) * [[2.0**90], [0.0], [2.0**-102]]
    return {"x": x.reshape(1, -1).astype("float32"), "kind": kind}


def full(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Blocks whose largest number is 6 or 4 times a power of two, or a little more than 6 times one."""
    import numpy as np

    blocks = sizes["N"] * sizes["D"] // BLOCK
    x = rounded_clearly(rng, blocks, BLOCK, "mxfp4")
    x /= 2.0 ** np.ceil(np.log2(abs(x).max(axis=1, keepdims=True) / 3))  # the largest is at most 3
    for block, place in enumerate(rng.integers(0, BLOCK, blocks)):
        x[block, place] = (6.0, 4.0, -6.1)[block % 3]
        x[block] *= 2.0 ** (block // 3 * 5 - 30)
    return {"x": x.reshape(sizes["N"], sizes["D"]), "kind": "mxfp4"}


def products_of(kind: str) -> Any:
    def make(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
        T, D, F = sizes["T"], sizes["D"], sizes["F"]
        return {
            name: rounded_clearly(rng, *shape, kind, (0, 1))
            for name, shape in {"x": (T, D), "kernel": (D, F), "dy": (T, F)}.items()
        } | {"kind": kind}

    return make


def drawn_of(kind: str) -> Any:
    def make(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
        """Numbers between a tenth and nine tenths of the way from one number of the format to the next, in all its
        binades, with the largest one in each block."""
        import numpy as np

        shape = (sizes["N"], sizes["D"])
        above = rng.integers(0, {"e4m3": 15, "mxfp4": 3}[kind], shape)  # binades above that of the finest numbers
        first = np.where(above > 0, 2 ** BITS[kind], 0)
        steps = rng.integers(first, 2 ** (BITS[kind] + 1)) + rng.uniform(0.1, 0.9, shape)
        x = (steps * FINEST[kind] * 2.0**above).clip(0, 0.97 * LARGEST[kind]) * rng.choice([-1, 1], shape)
        x[:, ::BLOCK] = LARGEST[kind]
        return {"x": (x * 2.0**-4).astype("float32"), "kind": kind, "seed": int(rng.integers(1 << 16))}

    return make


def operations(case: Case, difference: Difference) -> str:
    (T, D), F = case.values["x"].shape, case.values["dy"].shape[1]
    pairs = T * D * F
    if difference.path.endswith("small"):
        return (
            f"products of two operands of 8 bits or less with a float32 result must multiply all 3 · T · D · F = "
            f"{3 * pairs:,} pairs of codes, forward and backward, and they multiply fewer"
        )
    return f"besides products of codes, the program takes at least 3 · T · D · F / 2 = {3 * pairs // 2:,} operations"


BLOCKS = {"N": (2, 3), "D": (64, 96)}
PRODUCT = {"T": (64,), "D": (96,), "F": (64,)}

PROBLEM = Problem(
    title="Block scaling",
    minutes=120,
    builds_on=(19, 45),
    without={
        "axes": "a kernel is a matrix here as in problem 45",
        "coprime": "each axis is a multiple of 32, as on hardware: a block has 32 numbers",
    },
    entries=(
        Entry("quantize_blocks", ("x", "kind", "key"), returns=("codes", "scales")),
        Entry("block_matmul", ("x", "kernel", "kind")),
        Entry("error_bound", ("x", "kernel", "kind")),
    ),
    cases={
        "e4m3 blocks": Cases(blocks_of("e4m3"), BLOCKS, draws=1),
        "mxfp4 blocks": Cases(blocks_of("mxfp4"), BLOCKS, draws=1),
        "faint": Cases(faint, {"format": (0, 1)}, draws=2, covers=("magnitudes", "one")),
        "full": Cases(full, {"N": (2,), "D": (288,)}, draws=1),
        "e4m3 products": Cases(products_of("e4m3"), PRODUCT, draws=1),
        "mxfp4 products": Cases(products_of("mxfp4"), PRODUCT, draws=1),
        "large": Cases(products_of("e4m3"), {"T": (192,), "D": (1024,), "F": (192,)}, draws=1),
        "e4m3 draws": Cases(drawn_of("e4m3"), {"N": (2,), "D": (96,)}, draws=1),
        "mxfp4 draws": Cases(drawn_of("mxfp4"), {"N": (5,), "D": (160,)}, draws=1),
    },
    checks=(
        exact("e4m3 codes", 1, "quantizing", "codes", cases="e4m3 blocks"),
        Check("e4m3 scales", 1, "quantizing", leaves="scales", cases="e4m3 blocks", tolerance=BY_SIZE),
        exact("mxfp4 codes", 1, "quantizing", "codes", cases="mxfp4 blocks"),
        exact("mxfp4 scales", 2, "quantizing", "scales", cases="mxfp4 blocks"),
        Check("zeros and magnitudes", 1, "quantizing", cases="faint", tolerance=BY_SIZE),
        exact("full blocks", 1, "quantizing", "", cases="full"),
        Check("e4m3 product", 1, "multiplying", leaves="y", cases="e4m3 products"),
        Check("e4m3 gradients", 2, "multiplying", leaves="gradient", cases="e4m3 products"),
        Check("mxfp4 product", 1, "multiplying", leaves="y", cases="mxfp4 products"),
        Check("mxfp4 gradients", 2, "multiplying", leaves="gradient", cases="mxfp4 products"),
        exact(
            "products of codes", 2, "multiplying", "program.products", cases="large", in_words=operations,
            advice="Multiply codes of 8 bits with `preferred_element_type=jnp.float32`, block by block, and multiply "
            "the finished sums by the scales. The backward pass needs two such products, so write it yourself.",
        ),
        Check("e4m3 error bound", 1, "bounding", leaves="bound", cases="e4m3 products"),
        Check("mxfp4 error bound", 1, "bounding", leaves="bound", cases="mxfp4 products"),
        exact("rounded to a neighbor, e4m3", 1, "drawing", "reached", cases="e4m3 draws"),
        exact("rounded to a neighbor, mxfp4", 1, "drawing", "reached", cases="mxfp4 draws"),
        Check("unbiased, e4m3", 1, "drawing", leaves="bias", cases="e4m3 draws", tolerance=OF_DRAWS),
        Check("unbiased, mxfp4", 1, "drawing", leaves="bias", cases="mxfp4 draws", tolerance=OF_DRAWS),
        Check("independent", 1, "drawing", leaves="deviation", cases="mxfp4 draws", tolerance=OF_DEVIATIONS),
    ),
)  # fmt: skip
