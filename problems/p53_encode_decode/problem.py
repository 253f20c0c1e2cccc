"""Problem 53: encoding by ranks, decoding, and encoding a stream."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from grader.checks import Words, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

WORDS = """low lower lowest new newer newest wide wider banana Zoë naïve ☂☂ aaa aaaa ooo it's we'll they've don't
mississippi 🐉🐉""".split()
SPECIAL = ("<|end|>", "[a|b]", "(Zoë)")
ALIKE = ("<|end|>", "<|end|><|end|>", "<|end|>!")
GROWTH = (1000, 2000, 4000)  # lengths of words before the longest
# Letters that stand for bytes that are not UTF-8, in hexadecimal digits.
BREAK, CUT, ODD = "¤", "¬", "¥"
BROKEN = {
    BREAK: ("c3", "the byte C3, which begins a letter of two bytes"),
    CUT: ("f09f90", "the bytes F0 9F 90, of a letter of four bytes"),
    ODD: ("eda080ff", "the bytes ED A0 80 FF, which are in no letter"),
}
STREAM_TEXT = "it's low|we'll see|they've|we're |'l|  \n\n Zoë\n\nlow  new\n  wide|\t  \t low"
# White space shows where a stream is cut. By rank, CROSSED is A|BC|D|EF, in the order of the text AB|C|DE|F, and with
# the longest token first ABCDE|F. OUTDATED is GH|IJ: once IJ is a token, the pair of H and I is out of date, and that
# of H and IJ has a higher rank than GH. No training gives the other ones. WHOLE is a token that merging never reaches:
# KL|M|N. EARLY is QRS|T: QRS has a lower rank than QR, but is a pair only after QR.
CROSSED, OUTDATED, WHOLE, EARLY = "ABCDEF", "GHIJ", "KLMN", "QRST"
FIRST = (
    (b"KL", b"MN"),
    (b" K", b"LMN"),
    (b"QR", b"S"),
    (b"\n", b"\n"),
    (b" ", b" "),
    (b"E", b"F"),
    (b"B", b"C"),
    (b"D", b"E"),
    (b"BC", b"DE"),
    (b"A", b"BCDE"),
    (b"A", b"B"),
    (b"I", b"J"),
    (b"H", b"I"),
    (b"G", b"H"),
    (b"H", b"IJ"),
    (b"K", b"L"),
    (b"Q", b"R"),
    (b"S", b"T"),
    (b"\n", b" "),
)


def vocabulary(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Merges, in the order of their ranks, as rows of two tokens in hexadecimal digits, and how far the ids of bytes
    are shifted.

    They are trained as in problem 42, but on pairs drawn at random: ranks say little about lengths and frequencies.
    """
    every = [*WORDS, *(f" {word}" for word in WORDS), " <|"]
    words = [[bytes([byte]) for byte in word.encode()] for word in every]
    merges = {left + right: f"{left.hex()} {right.hex()}" for left, right in FIRST}
    while len(merges) < sizes["merges"]:
        pairs = [pair for word in words for pair in pairwise(word)]
        left, right = pairs[rng.integers(len(pairs))]
        merges.setdefault(left + right, f"{left.hex()} {right.hex()}")
        for word in words:
            for place in range(len(word) - 1, 0, -1):
                if tuple(word[place - 1 : place + 1]) == (left, right):
                    word[place - 1 : place + 1] = [left + right]
    return {"merges": "\n".join(merges.values()), "shift": int(rng.integers(1, 256))}


def words(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Words, of which some are not among those that the merges were made of. Wrong orders give CROSSED or OUTDATED
    others, and what relies on a training gives WHOLE or EARLY others."""
    some = [str(word) for word in rng.permutation(WORDS)]
    mixed = [left + right[1:] for left, right in zip(some, some[3:], strict=False)]
    odd = [CROSSED, OUTDATED, WHOLE, EARLY, "q"]
    chosen = [some[0], f" {mixed[0]}", *odd, mixed[1], f" {some[1]}", mixed[2], some[2]]
    return {"words": "\n".join(chosen[: sizes["words"]]), **vocabulary(sizes, rng)}


def runs(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Runs of one letter, in which equal pairs overlap, and words in which they are apart."""
    some = ["a" * int(length) for length in rng.permutation([3, 5, 7, 9])[: sizes["words"]]] + ["baaab", "aabaa"]
    merges = [("a", "a"), ("aa", "aa")][: sizes["merges"]]
    rows = [f"{left.encode().hex()} {right.encode().hex()}" for left, right in merges]
    return {"words": "\n".join(some), "merges": "\n".join(rows), "shift": int(rng.integers(1, 256))}


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text with special tokens, next to each other and at both ends, and pieces of them. Without any, they are
    text."""
    parts = []
    for number in range(sizes["parts"]):
        some = [str(word) for word in rng.choice(WORDS, rng.integers(3, 7))] + [WHOLE, "🐉☂é"][number : number + 1]
        parts.append([" ", "  ", " \n"][number % 3].join(some) + [".", " |a  ", "<|"][number % 3])
    special = SPECIAL[: sizes["special"]]
    text = "".join(part + SPECIAL[number % max(1, len(special))] for number, part in enumerate(parts))
    return {
        "text": "".join(special[:1]) + text + "".join(special[-1:]),
        "special_tokens": "\n".join(special),
        **vocabulary(sizes, rng),
    }


def alike(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text with runs of special tokens that begin alike. Neither the first nor the last of the table is always the
    longest."""
    special = [*ALIKE[:2]] if sizes["special"] == 2 else [ALIKE[2], *ALIKE[:2]]
    if sizes["reverse"]:
        special.reverse()
    runs = [ALIKE[0] * int(length) for length in rng.permutation([1, 2, 3, 4, 5])]
    some = [str(word) for word in rng.choice(WORDS, len(runs))]
    text = "".join(
        f"{word}{run}{'!' * (number % 2)}" for number, (word, run) in enumerate(zip(some, runs, strict=True))
    )
    return {"text": text, "special_tokens": "\n".join(special), **vocabulary(sizes, rng)}


def streams(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text in chunks of a few bytes: within letters, contractions, white space and special tokens. A chunk can be
    empty."""
    values = texts(sizes, rng)
    return {**values, "text": values["text"] + STREAM_TEXT, "chunk": sizes["chunk"]}


def broken(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A stream with letters that are cut off: before other letters, before white space, and at the end."""
    some = [str(word) for word in rng.choice(WORDS, 5)]
    text = f"{some[0]} {some[1]}{BREAK}{some[2]} {BREAK} {some[3]}{BREAK}{BREAK}{some[4]} {CUT}{ODD} {CUT}z{BREAK}"
    return {"text": text, "special_tokens": SPECIAL[0], "chunk": sizes["chunk"], **vocabulary(sizes, rng)}


def endless(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text that is repeated without end. Its white space is of one kind, which alone shows where to cut."""
    values = texts(sizes, rng)
    text = re.sub(r"\s", "\n" if sizes["lines"] else " ", values["text"] + " ")
    return {**values, "text": text, "chunk": sizes["chunk"], "wanted": sizes["wanted"]}


def pieces(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Parts of a text, each one token: words, special tokens, and letters whose bytes are tokens of their own.

    With `cut`, some letters lack bytes, and some bytes are in no letter.
    """
    values = vocabulary(sizes, rng)
    tokens = [bytes.fromhex(row) for row in values["merges"].split("\n")]
    some = [tokens[i].hex() for i in rng.integers(0, len(tokens), 4)]
    letters = [
        bytes([byte]).hex() for letter in rng.permutation(["ë", "☂", "é", "🐉"]) for byte in str(letter).encode()
    ]
    rows = [
        *some[:2],
        *letters,
        SPECIAL[0],
        *some[2:],
        "20",
        *[*letters[:-1], "ff", "ed", "a0", "80"] * sizes["cut"],
        *SPECIAL[1:],
        *letters[:3],
        some[0],
    ]
    return {"pieces": "\n".join(rows), "special_tokens": "\n".join(SPECIAL), **values}


def long_words(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A long word without white space, of two letters, and few merges, so that most of it is merged."""
    merges = [("a", "b"), ("ab", "ab"), ("b", "a"), ("abab", "a"), ("a", "a")]
    letters = "".join(rng.choice(list("ab"), 97))
    rows = [f"{left.encode().hex()} {right.encode().hex()}" for left, right in merges]
    return {
        "letters": letters,
        "merges": "\n".join(rows),
        "shift": int(rng.integers(1, 256)),
        "length": sizes["length"],
    }


def ranks_of(case: Case) -> dict[bytes, int]:
    """The ids of bytes, shifted, and of merges, with gaps: those of bytes come first, or last."""
    shift = int(case.values["shift"])
    ranks = {bytes([byte]): first_byte(shift) + (byte + shift) % 256 for byte in range(256)}
    rows = [row for row in str(case.values["merges"]).split("\n") if row]
    return ranks | {bytes.fromhex(row): merged(number) for number, row in enumerate(rows)}


def first_byte(shift: int) -> int:
    """The lowest id of a byte."""
    return 2000 * (shift % 2)


def merged(number: int) -> int:
    """The id of a merge."""
    return 256 + 2 * number


def special_of(case: Case) -> dict[str, int]:
    """The ids of special tokens, which do not follow those of merges without a gap."""
    tokens = [token for token in str(case.values.get("special_tokens", "")).split("\n") if token]
    return {token: 1000 + 7 * number for number, token in enumerate(tokens)}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with the tables as a learner reads them."""
    tokens = [bytes.fromhex(row) for row in values["merges"].split("\n") if row]
    others = {name: value for name, value in values.items() if name not in ("merges", "shift", "pieces")}
    if "pieces" in values:
        rows = [row if row in SPECIAL else bytes.fromhex(row) for row in values["pieces"].split("\n")]
        others["tokens of the ids"] = ", ".join(map(str, rows))
    if "letters" in values:
        sizes = ", ".join(f"{size:,}" for size in (*GROWTH, others.pop("length")))
        others["words"] = f"these letters again and again, in sizes of {sizes} bytes"
    others |= {letter: said for letter, (_, said) in BROKEN.items() if letter in values.get("text", "")}
    merges = ", ".join(f"{token!r}: {merged(number)}" for number, token in enumerate(tokens))
    first = f"{start} + " if (start := first_byte(values["shift"])) else ""
    return {**others, "ranks": f"byte b: {first}(b + {values['shift']}) % 256, {merges}"}


def tokens_of(case: Case) -> dict[int, str]:
    """What the ids of a case mean."""
    names = {number: f"{number} ({token!r})" for token, number in ranks_of(case).items()}
    names |= {number: f"{number} ({token})" for token, number in special_of(case).items()}
    return {**names, -1: "no further id", -2: "a number that is not an id"}


# Code points.
LETTERS = Words(lambda number: "the end of the text" if number < 0 else f"{chr(number)!r} (U+{number:04X})")


def of_a_word(case: Case, wrong: Difference) -> str:
    """The word whose ids are wrong."""
    word = str(case.values["words"]).split("\n")[int(wrong.path.split(".")[1])].encode()
    return f"id {wrong.index[0]} of the word {word!r} is {wrong.got}, expected {wrong.expected}"


def _ids(name: str, points: int, probe: str, **more: Any) -> Check:
    return exact(name, points, probe, "ids", words=tokens_of, **more)


SIZES = {"merges": (34, 42, 50)}
PROBLEM = Problem(
    title="Encode and decode",
    minutes=145,
    builds_on=(42,),
    forbids=("tiktoken",),
    entries=(
        Entry("encode_word", ("word", "ranks")),
        Entry("encode", ("text", "ranks", "special_tokens")),
        Entry("decode", ("token_ids", "ranks", "special_tokens")),
        Entry("encode_stream", ("chunks", "ranks", "special_tokens")),
    ),
    cases={
        "words": Cases(words, {"words": (7, 11), **SIZES}, draws=3, show=shown),
        "runs": Cases(runs, {"words": (2, 4), "merges": (2, 1)}, draws=2, show=shown),
        "texts": Cases(texts, {"parts": (3, 4), "special": (3, 1, 2), **SIZES}, draws=3, show=shown, covers=("text",)),
        "no special tokens": Cases(texts, {"parts": (2,), "special": (0,), "merges": (34,)}, draws=1, show=shown),
        "special tokens that begin alike": Cases(
            alike, {"special": (2, 3), "reverse": (0, 1), "merges": (34,)}, draws=3, show=shown
        ),
        "pieces": Cases(pieces, {"cut": (0,), **SIZES}, draws=2, show=shown),
        "cut pieces": Cases(pieces, {"cut": (1,), **SIZES}, draws=2, show=shown),
        "streams": Cases(streams, {"parts": (3, 4), "special": (2, 3), "chunk": (1, 3, 5, 16), **SIZES},
            draws=4, show=shown),
        "broken": Cases(broken, {"chunk": (1, 4), **SIZES}, draws=2, show=shown, covers=("one",)),
        "long words": Cases(long_words, {"length": (16_000,)}, draws=1, show=shown),
        "endless": Cases(
            endless, {"parts": (3,), "special": (2,), "chunk": (24,), "wanted": (20_000,), "merges": (34,),
                "lines": (0, 1)}, draws=2
        ),
    },
    checks=(
        _ids("lowest rank first", 3, "encoding_words", cases="words", in_words=of_a_word, calls=("encode_word",)),
        _ids("pairs that overlap", 1, "encoding_words", cases="runs", in_words=of_a_word, calls=("encode_word",)),
        _ids("text with special tokens", 2, "encoding", cases="texts", calls=("encode",)),
        _ids("no special tokens", 1, "encoding", cases="no special tokens", calls=("encode",)),
        _ids("special tokens that begin alike", 1, "encoding", cases="special tokens that begin "
            "alike", calls=("encode",)),
        exact("text of ids", 2, "decoding", "text", cases="pieces", words=LETTERS, calls=("decode",)),
        exact("bytes that are not UTF-8", 1, "decoding", "text", cases="cut pieces", words=LETTERS, calls=("decode",)),
        _ids("stream in chunks", 3, "streaming", cases="streams", calls=("encode_stream",)),
        _ids("stream that is not UTF-8", 1, "streaming", cases="broken", calls=("encode_stream",)),
        # Last, because nothing is graded after a program that does not end.
        _ids(
            "work of a long word", 1, "encoding_long_words", cases="long words", calls=("encode_word",), cpu_seconds=5,
            advice="Each merge looks at all pairs of the word again. Keep the pairs in a heap.",
        ),
        _ids("stream without end", 2, "streaming", cases="endless", calls=("encode_stream",), cpu_seconds=2),
    ),
)  # fmt: skip
