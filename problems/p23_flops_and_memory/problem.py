"""Problem 23: the parameters, operations and bytes of a GPT."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Cases, Check, Entry, Problem, Tolerance

SIZES = ("vocab_size", "context", "d_model", "d_ff", "num_layers")
# Whole numbers below 2^53 are exact in float64, and a quotient of floats is right up to its last bits.
LAST_BITS = Tolerance(rtol=1e-12, atol=0.0)
SMALL_AND_LARGE = {
    "V": (11, 50257), "T": (5, 1025), "D": (6, 4099, 5003), "F": (7, 2049), "L": (3, 13),
    "batch": (1, 65, 9), "reads": (1, 400, 100),
}  # fmt: skip
LARGE = {
    "V": (50257,), "T": (2049,), "D": (12289,), "F": (49157,), "L": (96, 97), "batch": (3, 5), "reads": (1, 3),
}  # fmt: skip
LONG = {
    "V": (11,), "T": (1025,), "D": (6,), "F": (7,), "L": (3, 13), "batch": (65, 9), "reads": (100,),
}  # fmt: skip


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    peak_flops = float(rng.integers(1, 900)) * 1e12
    return {
        "vocab_size": sizes["V"],
        "context": sizes["T"],
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "tokens_per_second": float(rng.integers(1000, 9000)),
        "peak_flops": peak_flops,
        "batch": sizes["batch"],
        "bytes_per_second": peak_flops * sizes["reads"] / 200,
    }


COUNTING = ("count_parameters", "forward_flops_per_token", "training_flops_per_token", "training_bytes", "utilization")
DECODING = ("decoding_bytes", "decoding_seconds")


def counted(name: str, points: int, **more: Any) -> Check:
    return Check(name, points, "counting", tolerance=LAST_BITS, calls=COUNTING, **more)


PROBLEM = Problem(
    title="Counting: parameters, operations, bytes",
    minutes=130,
    builds_on=(6,),
    entries=(
        Entry("count_parameters", SIZES),
        Entry("forward_flops_per_token", SIZES),
        Entry("training_flops_per_token", SIZES),
        Entry("training_bytes", SIZES),
        Entry("utilization", ("tokens_per_second", "peak_flops", *SIZES), formerly="utilisation"),
        Entry("decoding_bytes", ("batch", *SIZES)),
        Entry("decoding_seconds", ("batch", "peak_flops", "bytes_per_second", *SIZES)),
    ),
    cases={
        # No size is 1 or 4 times another, so that no two formulas agree. Counts with a large D are not exact in
        # float32, and the largest are beyond 32 bits. `reads` are the bytes that a machine reads in the time of 200
        # operations. With 1, reading decides; with 400, the operations do, even those of one sequence.
        "cases": Cases(gpt, SMALL_AND_LARGE, draws=12),
        # The largest GPT-3, but for sizes that are odd; and one of everything.
        "large": Cases(gpt, LARGE, draws=1, covers=("layers", "vocabulary")),
        # The batch is larger than the operations for each byte, and still the cache decides.
        "long": Cases(gpt, LONG, draws=1),
        "one": Cases(gpt, dict.fromkeys(SMALL_AND_LARGE, (1,)), draws=1, covers=("one",)),
    },
    checks=(
        counted("parameters", 2, leaves="count_parameters"),
        counted("forward operations", 2, leaves="forward_flops_per_token"),
        counted("training operations", 1, leaves="training_flops_per_token"),
        counted("training bytes", 1, leaves="training_bytes"),
        counted("utilization", 1, leaves="utilization"),
        counted("a model of 175 billion parameters", 1, cases="large"),
        counted("one of everything", 1, cases="one"),
        Check("bytes to decode", 1, "decoding", leaves="decoding_bytes", tolerance=LAST_BITS, calls=DECODING),
        Check("seconds to decode", 1, "decoding", leaves="decoding_seconds", tolerance=LAST_BITS, calls=DECODING),
        Check(
            "seconds to decode a long context", 1, "decoding", leaves="decoding_seconds", cases="long",
            tolerance=LAST_BITS, calls=DECODING,
        ),
    ),
)  # fmt: skip
