"""Problem 54: several stories in a row, with segment ids, positions, targets and an attention that keeps them apart."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

POSITIONS, MASK, TARGETS, ATTENTION = "segment_positions", "segment_mask", "segment_targets", "segment_attention"
WRT = ["q", "k", "v"]
# The reference computes about 130 pairs of blocks, and a causal attention without segments 528. Programs that take the
# maximum of each block in another way differ by a few percent.
WORK = Tolerance(rtol=0.7, atol=0.0, room=1.7)
# Neighboring float32 numbers near 1,000 are 6e-5 apart, so the scores, and with them the weights, are that rough.
SATURATED = Tolerance(rtol=2e-3, atol=2e-3)


def stories(lengths: Any, context: int, rng: Any, vocabulary: int = 50) -> dict[str, Any]:
    """Stories of these lengths, end to end, and the room of a row. The padding id is also that of a token."""
    import numpy as np

    lengths = np.array(lengths, np.int32)
    tokens = rng.integers(0, vocabulary, lengths.sum()).astype("int32")
    return {
        "tokens": tokens,
        "lengths": lengths,
        "context": context,
        "pad_id": int(rng.choice(tokens[tokens > 0])) if lengths.any() else 1,
    }


def fitting(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Stories of which some fit only into an earlier row, and some fill a row to its end."""
    T = sizes["T"]
    rest = rng.integers(1, T // 2, sizes["more"])
    return stories([T - 3, T - 2, 2, 3, T // 2 + 1, *rest, T, T // 2], T, rng)


def too_long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Stories longer than a row, of which one has the length of two rows, and empty stories."""
    T = sizes["T"]
    return stories([2, 2 * T + 3, 0, T - 4, 2 * T, 1, 0, 3], T, rng)


def tiny(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """So many stories of a few tokens that a row holds more than 255. The vocabulary has more than 65,536 tokens."""
    return stories(rng.integers(1, 3, sizes["stories"]), sizes["T"], rng, vocabulary=200_000)


def one_place(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows of one token."""
    return stories([2, 0, 3, 1], sizes["T"], rng)


def no_stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """No story, or only empty ones."""
    return stories([0] * sizes["empty"], 7, rng)


def row(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row of segments, one of which has a single token. The padding has the id of a token."""
    import numpy as np

    lengths = [*rng.permutation([1, 2, sizes["longest"]]), 3]
    numbers = rng.permutation(len(lengths)) + 1
    segment_ids = np.append(np.repeat(numbers, lengths), [0] * sizes["padding"]).astype("int32")
    token_ids = rng.integers(1, 20, len(segment_ids))
    token_ids[segment_ids == 0] = token_ids[1]
    return {"token_ids": token_ids.astype("int32"), "segment_ids": segment_ids}


def one_kind(segment: int, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row that is one long story, or nothing but padding."""
    import numpy as np

    T = sizes["T"]
    return {
        "token_ids": rng.integers(1, 20, T).astype("int32"),
        "segment_ids": np.full(T, segment, "int32"),
    }


def heads(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Queries, keys and values of a row whose segments begin within blocks and at their borders. One spans more than
    three."""
    import numpy as np

    C = sizes["C"]
    lengths = [*rng.permutation([C, 3 * C + 1, 1, C - 1]), sizes["last"]]
    numbers = rng.permutation(len(lengths)) + 1
    segment_ids = np.append(np.repeat(numbers, lengths), [0] * sizes["padding"]).astype("int32")
    shape = len(segment_ids), sizes["K"]
    values = {name: rng.standard_normal(shape).astype("float32") for name in WRT}
    return {**values, "segment_ids": segment_ids, "block": C}


def large_scores(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores in the hundreds, whose exponential is infinite."""
    values = heads(sizes, rng)
    return {**values, "q": values["q"] * 20, "k": values["k"] * 20}


def one_block(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row that is shorter than a block."""
    return {**heads(sizes, rng), "block": 64}


def many(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A long row of many short stories and a few long ones, of 300 tokens together. Neither a fixed number of blocks
    before a query is few, nor are windows around the long ones that hold each of them, however they divide these
    tokens."""
    import numpy as np

    T = sizes["T"]
    few = rng.integers(2, 5)
    long = 30 + np.diff([0, *np.sort(rng.integers(0, 301 - 30 * few, few - 1)), 300 - 30 * few])
    lengths = rng.permutation([*long, 28, 25, 24, 21, 19, 17, 15, 12, 10, 9, 8, 7, 5])
    segment_ids = np.repeat(np.arange(len(lengths)) + 1, lengths)
    segment_ids = np.pad(segment_ids, (0, T - len(segment_ids))).astype("int32")
    values = {name: rng.standard_normal((T, sizes["K"])).astype("float32") for name in WRT}
    return {**values, "segment_ids": segment_ids, "block": sizes["C"]}


def whole(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row like that of `many`, for the same program, that is one story: all pairs of blocks are needed."""
    import numpy as np

    return {**many(sizes, rng), "segment_ids": np.ones(sizes["T"], "int32")}


def work(case: Case, difference: Difference) -> str:
    return f"the program executes {difference.got} scalar operations; {difference.expected} are allowed"


def of_an_id(case: Case, difference: Difference) -> str:
    """An id is wrong: how far it is off says nothing."""
    leaf, place = difference.path.removeprefix("rows."), ", ".join(map(str, difference.index))
    return f"`{leaf}[{place}]` is {difference.got}, expected {difference.expected}"


def of_the_mask(case: Case, difference: Difference) -> str:
    """Whether a query sees a key."""
    query, key = difference.index
    got, expected = ("sees" if each == "True" else "does not see" for each in (difference.got, difference.expected))
    ids = case.values["segment_ids"]
    of = [f"{place} (segment id {ids[place]})" for place in (query, key)]
    return f"query {of[0]} {got} key {of[1]}; expected: it {expected} it"


LARGE = {"T": (512,), "K": (8,), "C": (16,)}
ROW = {"longest": (4, 5), "padding": (2, 3)}
PROBLEM = Problem(
    title="Segment packing",
    minutes=150,
    builds_on=(15, 37, 43),
    entries=(
        Entry("pack_stories", ("stories", "context", "pad_id"), returns=("token_ids", "segment_ids")),
        Entry(POSITIONS, ("segment_ids",)),
        Entry(MASK, ("segment_ids",)),
        Entry(TARGETS, ("token_ids", "segment_ids")),
        Entry(ATTENTION, ("q", "k", "v", "segment_ids", "block")),
    ),
    cases={
        "stories": Cases(fitting, {"T": (8, 11), "more": (2, 4)}, draws=3),
        "long stories": Cases(too_long, {"T": (6, 7)}, draws=2),
        "tiny stories": Cases(tiny, {"T": (512,), "stories": (701,)}, draws=1),
        "rows of one token": Cases(one_place, {"T": (1,)}, draws=1, covers=("one",)),
        "no stories": Cases(no_stories, {"empty": (0, 2)}, draws=2),
        "rows": Cases(row, ROW, draws=2),
        "full rows": Cases(row, {"longest": (4,), "padding": (0,)}, draws=1),
        "one story": Cases(partial(one_kind, 1), {"T": (6,)}, draws=1),
        "padding": Cases(partial(one_kind, 0), {"T": (6,)}, draws=1),
        "heads": Cases(heads, {"C": (4,), "K": (3,), "last": (6,), "padding": (3,)}, draws=2),
        "large scores": Cases(
            # As above: one program for both.
            large_scores, {"C": (4,), "K": (3,), "last": (6,), "padding": (3,)}, draws=1
        ),
        "ragged": Cases(heads, {"C": (4,), "K": (5,), "last": (7,), "padding": (1,)}, draws=1, covers=("coprime",)),
        "one block": Cases(one_block, {"C": (4,), "K": (3,), "last": (6,), "padding": (2,)}, draws=1),
        "large": Cases(many, LARGE, draws=1),
        "whole": Cases(whole, LARGE, draws=1),
    },
    checks=(
        exact("whole stories in "
            "rows", 2, "packing", "rows", cases="stories", in_words=of_an_id, calls=("pack_stories",)),
        exact("stories longer than a row", 1, "packing", "rows", cases="long stories", in_words=of_an_id,
              calls=("pack_stories",)),
        exact("many short stories", 1, "packing", "rows", cases="tiny "
            "stories", in_words=of_an_id, calls=("pack_stories",)),
        exact("rows of one token", 1, "packing", "rows", cases="rows of one "
            "token", in_words=of_an_id, calls=("pack_stories",)),
        exact("nothing to pack", 1, "packing", "rows", cases="no stories", in_words=of_an_id, calls=("pack_stories",)),
        exact("positions", 1, "values", "output", options={"entry": POSITIONS}, cases="rows"),
        exact("mask", 2, "values", "output", options={"entry": MASK}, cases="rows", in_words=of_the_mask),
        exact("targets", 2, "values", "output", options={"entry": TARGETS}, cases="rows", in_words=of_an_id),
        exact("targets of a full "
            "row", 1, "values", "output", options={"entry": TARGETS}, cases="full rows", in_words=of_an_id),
        exact("targets of one "
            "story", 1, "values", "output", options={"entry": TARGETS}, cases="one story", in_words=of_an_id),
        exact("targets of padding "
            "alone", 1, "values", "output", options={"entry": TARGETS}, cases="padding", in_words=of_an_id),
        Check("attention", 2, "values", {"entry": ATTENTION, "wrt": WRT}, "output", "heads"),
        Check("gradient of the attention", 1, "values", {"entry": ATTENTION, "wrt": WRT}, "gradient", "heads"),
        Check("large scores", 1, "values", {"entry": ATTENTION, "wrt": WRT}, "output", "large "
            "scores", tolerance=SATURATED),
        Check("block does not divide T", 1, "values", {"entry": ATTENTION}, "output", "ragged"),
        Check("a block longer than the row", 1, "values", {"entry": ATTENTION}, "output", "one block"),
        Check(
            "blocks without a common segment "
            "skipped", 1, "values", {"entry": ATTENTION}, "program.work", "large", "at_most",
            WORK, in_words=work,
            advice="The program computes the scores of blocks that have no segment in common. Decide with "
            "`jax.lax.cond` whether a pair of blocks is computed, outside of `jax.vmap`.",
        ),
        Check("a story of many blocks", 1, "values", {"entry": ATTENTION}, "output", "whole"),
    ),
    timeout=60.0,
)  # fmt: skip
