"""Problem 42: training a byte-level BPE tokenizer."""

from collections.abc import Mapping
from typing import Any

from grader.checks import Words, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

WORDS = (
    "low lower lowest new newer newest wide wider banana Zoë naïve ☂☂ aaa aaaa ooo 2024 it's ... don't mississippi "
    "🦊🦊 Low"
).split()
TWICE = "Zo\u00eb Zoe\u0308 🦊"  # the same letter as one character and as two, and a character of four bytes
SPECIAL = ("<|end|>", "[a|b]", "(pad)")
# The first two never apply, because a word does not end with a space.
MERGES = (
    "r _", "t _", "l o", "lo w", "e r", "n e", "a a", "aa a", "low e", "ne w", "_ w", "e "
        "s", "es t", "_w i", "a n", "_ lo", "< |",
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
    joined += f" {TWICE}"
    # A special token at the beginning, and two at the end.
    joined = "".join(special[:1]) + joined + "".join(special[-1:] * 2)
    return {"text": joined, "special_tokens": "\n".join(special)}


def word_counts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words, some with a space in front of them, and their counts, which often tie."""
    words = [str(word) for word in rng.permutation(WORDS)[: sizes["words"]] if word != "☂☂"]
    words += [f" {word}" for word in rng.permutation(words)[: len(words) // 2]]
    words.append("☂☂")  # three bytes, twice
    counts = rng.integers(1, 4, len(words))
    counts[-1] = 4
    if "times" in sizes:  # large counts without a common divisor, which would make them small
        counts = counts * sizes["times"] + rng.integers(1, 10**6, len(counts))
    return {"words": "\n".join(words), "counts": counts, "num_merges": sizes["merges"]}


def tied(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words of two letters with the same count, which is also that of two pairs in which a left part begins like the
    other.

    Two letters of two bytes tie as well. Their bytes are no text, and the greater comes last.
    """
    letters = rng.permutation([f"{left}{right}" for left in "bdpq" for right in "aeiou"])[: sizes["words"]]
    (left,), (early, late), (last, end) = (rng.choice(list(choice), n, replace=False) for choice, n in
                                           (("tuv", 1), ("fghijk", 2), ("xyz", 2)))  # fmt: skip
    early, late = sorted((early, late))
    # (left + early, last) is the greater pair, but left + late + end the greater token.
    words = [f"{left}{early}{last}", f"{left}{late}{end}", f"{left}{early}", f"{late}{end}"]
    words += sorted(map(str, rng.choice(list("éñü"), 2, replace=False)))
    counts = [3] * (len(letters) + 2) + [6, 5, 7, 7]
    return {"words": "\n".join([*map(str, letters), *words]), "counts": 0 * rng.integers(1, 2, len(counts)) + counts,
            "num_merges": 8}  # fmt: skip


def repeated(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Runs of one letter, in which pairs overlap, and a word that contains the pair at several places."""
    words = ["a" * int(length) for length in rng.permutation([3, 4, 5, 7])[: sizes["words"]]] + ["abab", "xaaxaa"]
    return {"words": "\n".join(words), "counts": rng.integers(1, 5, len(words)), "num_merges": 6}


def rare(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Few words, so that training stops early: at pairs that occur once, or, with `all`, at words of one token each."""
    words = ["abc", "xy", "q", "stu"][: sizes["words"]]
    counts = 0 * rng.integers(1, 2, len(words)) + 1 + sizes["all"]
    counts[rng.integers(0, 2)] = 2
    # Also no merge at all, which needs no case of its own.
    asked = 0 * rng.integers(1, 2, 2) + [0, 20] if sizes["all"] else 20
    return {"words": "\n".join(words), "counts": counts, "num_merges": asked}


def often(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words that occur often, and a word of three capitals. The probe adds `others`, each of which occurs once.

    A third of these end with drawn letters and the capitals. So few of the merges change them, but all of them decide
    which pairs are merged, and they have little in common by which they could be counted together.
    """
    words = sorted({"".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 8)) for _ in range(sizes["words"])})
    words.append("".join(rng.permutation(list("ABCDEFGH"))[:3]))
    counts = rng.integers(2000, 3000, len(words))
    return {"words": "\n".join(words), "counts": counts, "num_merges": sizes["merges"], "others": sizes["others"]}


def encodings(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The first merges of a list, and a text to encode, in which one of them joins a space and a letter. `_` is a
    space."""
    values = texts({"parts": 4, "special": sizes["special"]}, rng)
    values["text"] = values["text"].replace(TWICE, f"{TWICE} wider")
    return {**values, "merges": "\n".join(MERGES[: sizes["merges"]])}


def words_in(text: bytes) -> Words:
    """What the numbers mean that probes.py makes of words and merges, for the text in which they occur."""

    def meaning(number: int) -> str:
        if number < 1000:
            return {-1: "one that does not occur in the case", -2: "missing"}.get(number, str(number))
        rest, count = divmod(number, 1000)
        rest, length = divmod(rest, 1000)
        start, first = divmod(rest, 1000)
        token = text[start : start + length]
        return f"({token[:first]!r}, {token[first:]!r})" if first < length else f"{token!r}, {count} times"

    return Words(meaning)


def counted(case: Case) -> Words:
    return words_in(str(case.values["text"]).encode())


def count_in_words(case: Case, difference: Difference) -> str:
    if difference.path.endswith("empty_text"):
        return f"the dictionary of an empty text has the length {difference.got}, expected 0"
    place = int(difference.path.rpartition(".")[2])
    return (
        f"in the order of their first places in the text, word {place} is {difference.got}, expected "
        f"{difference.expected}"
    )


def paired(case: Case) -> Words:
    return words_in(str(case.values["words"]).encode())


def merge_in_words(case: Case, difference: Difference) -> str:
    asked, number = difference.path.split("_")[1].split(".")
    if number == "further":
        return f"with num_merges = {asked}, the length of the list is {int(asked) + int(difference.got)}"
    return f"merge {int(number)} is {difference.got}, expected {difference.expected}"


def _merges(name: str, points: int, probe: str = "training", **more: Any) -> Check:
    """A check of the merges, in order."""
    return exact(name, points, probe, "merges", words=paired, in_words=merge_in_words, **more)


def encoding_in_words(case: Case, difference: Difference) -> str:
    """The size of a vocabulary, or that decoding does not give the text again."""
    if difference.path == "encoding.n_vocab":
        return f"the encoding has {difference.got} ids (`n_vocab`), expected {difference.expected}"
    if difference.path == "encoding.round_trip":
        return "decoding the ids does not give the text again"
    return ""


PROBLEM = Problem(
    title="Train a tokenizer",
    minutes=130,
    builds_on=(15,),
    without={"coprime": "no array has two axes: the counts are one number for each word"},
    entries=(
        Entry("count_words", ("text", "special_tokens")),
        Entry("train_bpe", ("word_counts", "num_merges")),
        Entry("make_encoding", ("merges", "special_tokens")),
    ),
    cases={
        "texts": Cases(texts, {"parts": (3, 4), "special": (1, 2, 3)}, draws=3, covers=("text", "one")),
        "no special tokens": Cases(texts, {"parts": (2,), "special": (0,)}, draws=1),
        "words": Cases(word_counts, {"words": (6, 10, 14), "merges": (5, 12, 20)}, draws=3),
        "ties": Cases(tied, {"words": (5, 8)}, draws=2),
        "repeated": Cases(repeated, {"words": (2, 4)}, draws=2),
        "rare": Cases(rare, {"words": (3, 4), "all": (0,)}, draws=1),
        "nothing left": Cases(rare, {"words": (3, 4), "all": (1,)}, draws=1),
        "huge": Cases(word_counts, {"words": (7, 9), "merges": (9,), "times": (10**14, 3 * 10**14)}, draws=1),
        "often": Cases(often, {"words": (260, 280), "merges": (1000,), "others": (10_000,)}, draws=1),
        "encodings": Cases(encodings, {"merges": (11, 14, 17), "special": (2, 3)}, draws=2),
        "plain encoding": Cases(encodings, {"merges": (0,), "special": (0,)}, draws=1),
    },
    checks=(
        exact("words and their counts", 2, "counting", "counts", cases="texts", words=counted, in_words=count_in_words),
        exact("no special tokens", 1, "counting", "counts", cases="no special "
            "tokens", words=counted, in_words=count_in_words),
        _merges("merges", 2, cases="words"),
        _merges("ties", 1, cases="ties"),
        _merges("pairs that overlap", 1, cases="repeated"),
        _merges("pairs that occur once", 1, cases="rare"),
        _merges("no pair left", 1, cases="nothing left"),
        exact("ids", 2, "encoding", "encoding", cases="encodings", in_words=encoding_in_words),
        exact("ids without special tokens", 1, "encoding", "encoding", cases="plain "
            "encoding", in_words=encoding_in_words),
        # Last, because a program that does not end is not graded any further.
        _merges(
            "work of a merge", 2, "training_beside_many_words", cases="often", cpu_seconds=8,
            advice="Keep the totals, and for each pair the words that contain it. A merge changes only those words: "
            "subtract their old pairs from the totals, and add their new ones.",
        ),
        _merges(
            "work independent of the counts", 1, cases="huge",
            advice="The counts are as large as 10¹⁵. Treat each different word once, and add its count to the totals "
            "of its pairs.",
        ),
    ),
)  # fmt: skip
