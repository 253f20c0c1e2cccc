"""Problem 42: training a byte-level BPE tokenizer."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Cases, Entry, Problem

WORDS = "low lower lowest new newer newest wide wider banana Zoë naïve ☂☂ aaa aaaa ooo 2024 it's ... don't mississippi".split()
SPECIAL = ("<|end|>", "[a|b]", "(pad)")
# The first two never apply, because a word does not end with a space.
MERGES = (
    "r _", "t _", "l o", "lo w", "e r", "n e", "a a", "aa a", "low e", "ne w", "_ w", "e s", "es t", "_w i", "a n", "_ lo", "< |",
)  # fmt: skip


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text with special tokens between its parts, and pieces of special tokens in it. Without any, they are text."""
    parts = []
    for number in range(sizes["parts"]):
        words = [str(word) for word in rng.choice(WORDS, rng.integers(4, 9))]
        parts.append([" ", "  ", " \n"][number % 3].join(words) + [".", " |a", "<|"][number % 3])
    special = SPECIAL[: sizes["special"]]
    joined = parts[0]
    for number, part in enumerate(parts[1:]):
        joined += SPECIAL[number % max(1, len(special))] + part
    return {"text": joined, "special_tokens": "\n".join(special)}


def word_counts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words, some with a space in front of them, and their counts, which often tie."""
    words = [str(word) for word in rng.permutation(WORDS)[: sizes["words"]] if word != "☂☂"]
    words += [f" {word}" for word in rng.permutation(words)[: len(words) // 2]]
    words.append("☂☂")  # three bytes, twice
    counts = rng.integers(1, 4, len(words))
    counts[-1] = 4
    return {"words": "\n".join(words), "counts": counts * sizes.get("times", 1), "num_merges": sizes["merges"]}


def tied(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words of two letters with the same count."""
    letters = rng.permutation([f"{left}{right}" for left in "bdpq" for right in "aeiou"])[: sizes["words"]]
    return {"words": "\n".join(map(str, letters)), "counts": 0 * rng.integers(1, 2, len(letters)) + 3, "num_merges": 4}


def repeated(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Runs of one letter, in which pairs overlap, and a word that contains the pair at several places."""
    words = ["a" * int(length) for length in rng.permutation([3, 4, 5, 7])[: sizes["words"]]] + ["abab", "xaaxaa"]
    return {"words": "\n".join(words), "counts": rng.integers(1, 5, len(words)), "num_merges": 6}


def rare(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Few words, so that training stops early: at pairs that occur once, or, with `all`, at words of one token each."""
    words = ["abc", "xy", "q", "stu"][: sizes["words"]]
    counts = 0 * rng.integers(1, 2, len(words)) + 1 + sizes["all"]
    counts[rng.integers(0, 2)] = 2
    return {"words": "\n".join(words), "counts": counts, "num_merges": 20}


def encodings(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The first merges of a list, and a text to encode. `_` is a space."""
    values = texts({"parts": 4, "special": sizes["special"]}, rng)
    return {**values, "merges": "\n".join(MERGES[: sizes["merges"]])}


PROBLEM = Problem(
    title="Train a tokenizer",
    builds_on=(15,),
    entries=(
        Entry("count_words", ("text", "special_tokens")),
        Entry("train_bpe", ("word_counts", "num_merges")),
        Entry("make_encoding", ("merges", "special_tokens")),
    ),
    cases={
        "texts": Cases(texts, {"parts": (3, 4), "special": (1, 2, 3)}, draws=3),
        "no special tokens": Cases(texts, {"parts": (2,), "special": (0,)}, draws=1),
        "words": Cases(word_counts, {"words": (6, 10, 14), "merges": (5, 12, 20)}, draws=3),
        "ties": Cases(tied, {"words": (5, 8)}, draws=2),
        "repeated": Cases(repeated, {"words": (2, 4)}, draws=2),
        "rare": Cases(rare, {"words": (3, 4), "all": (0,)}, draws=1),
        "nothing left": Cases(rare, {"words": (3, 4), "all": (1,)}, draws=1),
        "huge": Cases(word_counts, {"words": (7, 9), "merges": (9,), "times": (10**14, 3 * 10**14)}, draws=1),
        "encodings": Cases(encodings, {"merges": (11, 14, 17), "special": (2, 3)}, draws=2),
        "plain encoding": Cases(encodings, {"merges": (5, 8), "special": (0,)}, draws=1),
    },
    checks=(
        exact("words and their counts", 2, "counting", "counts", cases="texts"),
        exact("no special tokens", 1, "counting", "counts", cases="no special tokens"),
        exact("merges", 2, "training", "merges", cases="words"),
        exact("ties", 1, "training", "merges", cases="ties"),
        exact("pairs that overlap", 1, "training", "merges", cases="repeated"),
        exact("pairs that occur once", 1, "training", "merges", cases="rare"),
        exact("no pair left", 1, "training", "merges", cases="nothing left"),
        exact("ids", 2, "encoding", "encoding", cases="encodings"),
        exact("ids without special tokens", 1, "encoding", "encoding", cases="plain encoding"),
        # Last, because a program whose work depends on the counts does not end, and nothing is graded after it.
        exact(
            "work independent of the counts", 1, "training", "merges", cases="huge",
            advice="The counts are as large as 10¹⁵. Treat each different word once, and add its count to the totals of "
            "its pairs.",
        ),
    ),
)  # fmt: skip
