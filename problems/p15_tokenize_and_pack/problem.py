"""Problem 15: from text to windows of token ids."""

from collections.abc import Mapping
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem

END = "<|endoftext|>"
WORDS = "the Cat sat on a mat and Zoë said: hello, little ☂ one day they found it under their hat again".split()
# Two, three and four bytes in UTF-8. The last é is two characters, as some keyboards write it.
OTHERS = ("naïve", "日本", "ﬁn", "🐱", "👩‍🚀", "cafe\u0301")


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A file in the format of TinyStories: markers on lines of their own, some of them with nothing in between.

    Other white space surrounds the stories, too: spaces, tabs, carriage returns and no-break spaces.
    """
    parts = []
    for number in range(sizes["stories"]):
        words = [*rng.choice(WORDS, rng.integers(3, 9)), *rng.permutation(OTHERS)]
        parts.append("\n\n".join([" ".join(words[:4]), " ".join(words[4:])]) + ".\n")
        parts[-1] = [" {}\r", "{}\u00a0", "\t{}\t"][number % 3].format(parts[-1])
        if number % 2:
            parts.append(" \n")
    return {"text": f"{END}\n".join(parts) + [f"{END}\n", ""][sizes["open"]]}


def no_stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A file with markers and white space, but without a story."""
    return {"text": f"{END}\n" * sizes["markers"] + "\n"}


def stream(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """N distinct ids to pack, most of them larger than 16 bits hold, and a padding id: a negative one, or one of
    them."""
    token_ids = rng.choice(200_000, sizes["N"], replace=False).astype("int32")
    pad_id = int(token_ids[0]) if sizes.get("pad_is_an_id") else -1 - sizes["T"]
    return {"token_ids": token_ids, "context": sizes["T"], "pad_id": pad_id}


PROBLEM = Problem(
    title="Tokenize and pack",
    minutes=45,
    builds_on=(1, 7),
    entries=(Entry("tokenize", ("text", "encoding")), Entry("pack", ("token_ids", "context", "pad_id"))),
    cases={
        "text": Cases(stories, {"stories": (2, 3, 4), "open": (0, 1)}, draws=4, covers=("text",)),
        "no stories": Cases(no_stories, {"markers": (0, 1, 3)}, draws=2),
        "remainder": Cases(stream, {"N": (11, 14, 3), "T": (4, 5)}, covers=("coprime",)),
        "one": Cases(stream, {"N": (1, 5), "T": (1,)}, draws=2, covers=("one",)),
        "no remainder": Cases(stream, {"N": (12, 24), "T": (1, 4, 6), "pad_is_an_id": (1, 0)}, draws=4),
        "nothing": Cases(stream, {"N": (0,), "T": (4,)}, draws=1),
    },
    checks=(
        Check("token ids", 2, "tokenizing", leaves="token_ids", cases="text", tolerance=EXACT),
        Check("text without stories", 1, "tokenizing", leaves="token_ids", cases="no stories", tolerance=EXACT),
        Check("remainder kept", 2, "packing", leaves="windows", cases="remainder", tolerance=EXACT),
        Check("no remainder, no padding", 1, "packing", leaves="windows", cases="no remainder", tolerance=EXACT),
        Check("windows of one token", 1, "packing", leaves="windows", cases="one", tolerance=EXACT),
        Check("empty stream", 1, "packing", leaves="windows", cases="nothing", tolerance=EXACT),
    ),
)
