"""Problem 30: a KV cache, so that keys and values are computed once."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Cases, Check, Entry, Problem, Tolerance


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a small GPT with more positions than the cache has, and token ids (T,) to feed it one by one."""
    V, H, T = sizes["V"], sizes["H"], sizes["T"]
    return {
        "vocab_size": V,
        "d_model": H * sizes["K"],
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "max_T": 3 * T,
        "context": T,
        "token_ids": rng.integers(0, V, T).astype("int32"),
    }


# The sums of one position may be taken in another order than those of all positions together.
LOGITS = Tolerance(rtol=1e-4, atol=1e-4)
# A scan over the blocks, which looks their parameters up, takes 1.7 times as many operations. Running the prefix again
# takes 31 times as many.
WORK = Tolerance(rtol=2.5, atol=0.0, room=3)
BYTES = Tolerance(rtol=0.1, atol=64)

PROBLEM = Problem(
    title="The KV cache",
    minutes=70,
    builds_on=(6, 29),
    entries=(
        Entry("empty_cache", ("model", "context")),
        Entry("decode_step", ("model", "cache", "token_id"), returns=("logits", "cache")),
    ),
    cases={
        "cases": Cases(gpt, {"T": (5, 6), "V": (11, 13), "H": (2, 3), "K": (4,), "F": (10,), "L": (2, 3)}, draws=2),
        "large": Cases(
            gpt, {"T": (3,), "V": (50_257,), "H": (1,), "K": (2,), "F": (5,), "L": (1,)}, draws=1,
            covers=("vocabulary", "coprime", "one"),
        ),
        "long": Cases(gpt, {"T": (64, 56, 60), "V": (16,), "H": (2,), "K": (8,), "F": (32,), "L": (2,)}, draws=1),
    },
    row_by_row={"decoding": ["token_ids"]},
    checks=(
        Check("logits of the first step", 1, "decoding", leaves="logits.0", tolerance=LOGITS),
        Check("logits of every step", 4, "decoding", leaves="logits", tolerance=LOGITS),
        Check("a large vocabulary, one head, one "
            "layer", 1, "decoding", leaves="logits", cases="large", tolerance=LOGITS),
        Check(
            "one compilation", 1, "decoding", leaves="logits", tolerance=LOGITS, traced=True,
            advice="The step was compiled again for later positions. Keep the position in the cache, as an array.",
        ),
        Check(
            "size of the cache", 1, "decoding", leaves="program.cache_bytes", cases="long", compare="at_most",
            tolerance=BYTES, values_tolerance=LOGITS,
        ),
        Check(
            "work of one step", 2, "decoding", leaves="program.work", cases="long", compare="at_most", tolerance=WORK,
            values_tolerance=LOGITS,
            advice="One step does the work of many positions. Run only the new token through the layers; the cache "
            "holds the keys and values of the others.",
        ),
    ),
    bill="work of one step",
    without={"layers": "each layer is a part of the compiled step: to compile twelve takes a second more, of the same "
        "parts"},
)  # fmt: skip
