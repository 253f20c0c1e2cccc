"""Problem 55: near-duplicates, by shingles, MinHash, bands and clusters."""

import hashlib
import re
import zlib
from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import Any

from grader.checks import Words, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

WORDS = """
frog bird tree lake ball kite cake moon star rain wind snow boat bear duck fish leaf rock song door road hill king
ship bell coat milk rice salt soup wolf goat lamp book desk hand foot nose face hair ring rope sand seed sail tent
town wall wave wing yard yarn zone bean coin corn dawn dish dust farm fire fort gate gift gold iron jazz jeep kelp
lime maze mint nest oven pear plum pond
""".split()
PRIME = 2**31 - 1
# Letters of one to four bytes, with and without a lower case, and a sharp s, which case folding would write as two
# letters. The pictures and the dash are no letters.
SCRIPTS = "Straße, Ñandú Москва 東京 𐐀𐐁\u00a0ΑΒΓ٣ 🎉frog🎉 cake—moon"
PROBABILITY = Tolerance(rtol=1e-6, atol=1e-9)


def fingerprint(shingle: str) -> int:
    """As in the stub."""
    return int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little") % PRIME


def words_of(rng: Any, count: int) -> list[str]:
    """Different words, all of four letters."""
    return [str(word) for word in rng.permutation(WORDS)[:count]]


def hashes(rng: Any, P: int) -> dict[str, Any]:
    """P hash functions, each of two numbers."""
    return {"a": rng.integers(1, PRIME, P), "b": rng.integers(0, PRIME, P)}


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text with capitals, punctuation, digits, an accent, and words that come again. `marks` of 2 adds other
    scripts."""
    some = words_of(rng, sizes["words"])
    text = " ".join(some)
    if sizes["marks"]:
        again = some[: sizes["n"] + 1]
        start, end = f'"{text.capitalize()}!" Zoë\'s 3 {some[0].upper()}s', f"{' '.join(again)}... {' '.join(again)}"
        text = f"{start},\n\n{' '.join(some)} -- and {end}"
    if sizes["marks"] == 2:
        text = f"{text} {SCRIPTS} {some[0]}_{some[1]} x2_"
    return {"text": text, "n": sizes["n"]}


def short(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Fewer words than a shingle has, or just as many, or none."""
    return {"text": [" ".join(words_of(rng, sizes["words"])), "?! ... --"][sizes["words"] == 0], "n": sizes["n"]}


def sets(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Shingles of a text, or none, and hash functions."""
    some = words_of(rng, sizes["S"] + 1)
    pairs = [f"{left} {right}" for left, right in pairwise(some)]
    return {"shingles": "\n".join(pairs), **hashes(rng, sizes["P"])}


def telling_hashes(texts: list[str], sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Hash functions for texts of which some pairs have a similarity of just one half.

    With several bands, all similar pairs are candidates, and of those pairs, some are estimated below one half and
    others not.
    """
    import numpy as np

    if sizes["bands"] == 1:
        return hashes(rng, sizes["P"])
    sets = [set(pairwise(re.findall(r"\w+", text.lower()))) for text in texts]
    similarity = {
        (i, j): len(sets[i] & sets[j]) / len(sets[i] | sets[j])
        for i, j in combinations(range(len(sets)), 2)
        if sets[i] and sets[j]
    }
    similar = [pair for pair, share in similarity.items() if share > 0.2]
    numbers = [np.array([fingerprint(" ".join(pair)) for pair in each], np.int64) for each in sets]
    for _ in range(50):
        drawn = hashes(rng, sizes["P"])
        a, b = drawn["a"][:, None], drawn["b"][:, None]
        rows = np.stack([((a * each + b) % PRIME).min(axis=1, initial=PRIME) for each in numbers])
        equal = {(i, j): rows[i] == rows[j] for i, j in similar}
        estimates = [equal[pair].mean() for pair in similar if similarity[pair] == 0.5]
        in_a_band = [each.reshape(sizes["bands"], -1).all(axis=1).any() for each in equal.values()]
        if all(in_a_band) and min(estimates) < 0.5 <= max(estimates):
            break
    return drawn


def curves(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    import numpy as np

    return {
        "similarity": np.append(rng.uniform(0.1, 0.9, 5), [0.0, 1.0]),
        "num_bands": sizes["bands"],
        "rows_per_band": sizes["rows"],
    }


def signatures(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Signatures of which some agree in a band, in all but one row of it, in another band, or in rows of two bands."""
    N, bands, rows = sizes["N"], sizes["bands"], sizes["rows"]
    found = rng.integers(0, 1000, (N, bands * rows))
    first = slice(0, rows)
    found[1, first] = found[0, first]  # the first band
    found[2, -rows:] = found[0, -rows:]  # the last one
    found[3, rows : 2 * rows] = found[4, first]  # another band
    found[5, : rows - 1] = found[4, : rows - 1]  # all rows of a band but one
    found[6, 1 : 1 + rows] = found[2, 1 : 1 + rows]  # parts of two bands
    found[7] = found[2]  # all of them
    found[7, first] = found[1, first]
    found[8, ::bands][:rows] = found[5, ::bands][:rows]  # every so many-th row
    found[6, first] = found[3, first][::-1]  # in another order
    found[9, :2], found[10, :2] = (1, 12), (11, 2)  # the same digits
    found[10, 2:rows] = found[9, 2:rows]
    return {"signatures": found[rng.permutation(N)], "num_bands": bands}


def graph(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Pairs of texts: a chain in any order, a star, a triangle, and texts without a partner. One pair comes twice."""
    N = sizes["N"]
    names = rng.permutation(N)
    chain = [(names[i], names[i + 1]) for i in range(sizes["chain"])]
    star = [(names[sizes["chain"] + 1], names[sizes["chain"] + 2 + i]) for i in range(3)]
    last = names[-3:]
    triangle = [(last[0], last[1]), (last[1], last[2]), (last[0], last[2])]
    edges = [chain + star, chain + star + triangle][sizes["triangle"]]
    rows = [rng.permutation(edges[place]) for place in [*rng.permutation(len(edges)), 0]]
    return {"pairs": "\n".join(f"{left} {right}" for left, right in rows), "num_texts": N}


def collection(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Texts that are alike in all ways that matter, with shingles of two words and a threshold of one half."""
    w = words_of(rng, 70)
    row = " ".join
    a, b, c, d, e, f = w[:12], w[12:24], w[24:42], w[42:50], w[50:56], w[56:69]
    g = [*f[1::2], *f[::2]]
    h = c[:6:-1]
    halves = [each for some in (f, f[::-1], g, g[::-1]) for each in (row(some[:10]), row(some[3:]))]  # 6 of 12
    found = [
        row(a), row([*a[:-1], "toad"]), row([*a[:-1], "crab"]), row(a).capitalize() + ".",
        row(c[:12]), row(c[3:15]), row(c[6:18]),  # a chain: 8 of 14, and 5 of 17
        row([*b, *e]), row(b[:6]),  # one is contained in the other
        row(d), row([*d, *d]),  # once and twice
        *halves,  # several: an estimate is at least one half for every other pair
        "", "?!", "?!", w[69],
        row(b[::-1]),  # the same words in another order
        row([*b[5::-1], *e[::-1]]),  # 5 of 17
        row([*b[:6], *b[:5:-1]]),  # 5 of 11, although half of the words are the same
        row(a[9::-1]), row([*a[5::-1], *d[:3:-1]]),  # 5 of 13
        row(d) + "!" * 60, row(d) + "!" * 60,  # longer, but not in words, and identical
        row(d) + "🎉" * 50,  # not as many characters, but more bytes, and more halves of UTF-16
        row([*h, "étud"]).capitalize(), row([*h, "zinc"]),  # a capital comes before all small letters
    ]  # fmt: skip
    order = rng.permutation(len(found))
    chosen = [found[place] for place in order][: sizes["N"]]
    return {
        "texts": "\n".join(chosen),
        "n": 2,
        **telling_hashes(chosen, sizes, rng),
        "num_bands": sizes["bands"],
        "threshold": 0.5,
    }


def many(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"N": sizes["N"], "seed": int(rng.integers(1, 1 << 30))}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The texts with their numbers."""
    return {**values, "texts": ", ".join(f"{i}: {text!r}" for i, text in enumerate(values["texts"].split("\n")))}


def number_of(text: str) -> int:
    """A number that stands for a text in an array."""
    return zlib.crc32(text.encode())


def shingles_of(case: Case) -> Words:
    """What the numbers of shingles mean: all runs of words that someone could take for one."""
    text, found = str(case.values["text"]), {-1: "none further"}
    patterns = (r"\w+", r"\S+", "[A-Za-z0-9_]+", r"[\w']+", r"[^\W\d]+", r"[^\W_]+")
    for words in (re.findall(pattern, each) for pattern in patterns for each in (text, text.lower(), text.casefold())):
        for length in range(len(words) + 1):
            for start in range(len(words) - length + 1):
                shingle = " ".join(words[start : start + length])
                found[number_of(shingle)] = repr(shingle)
    return Words(lambda number: found.get(number, "a string that is not a shingle of this text"))


def of_a_pair(case: Case, difference: Difference) -> str:
    """Which two texts are a pair, or are not."""
    if not difference.path.endswith("pair"):
        return ""
    left, right = difference.index
    got, expected = ("a pair" if each == "1" else "not a pair" for each in (difference.got, difference.expected))
    return f"texts {left} and {right} are {got}; expected: {expected}"


def of_a_label(case: Case, difference: Difference) -> str:
    """The label of a text."""
    if not difference.index:
        return ""
    return f"the label of text {difference.index[0]} is {difference.got}, expected {difference.expected}"


def of_a_text(case: Case, difference: Difference) -> str:
    """Whether a text stays."""
    (place,) = difference.index
    text = str(case.values["texts"]).split("\n")[place]
    got, expected = ("stays" if each == "1" else "does not stay" for each in (difference.got, difference.expected))
    orders = {"opposite_order": "if the texts are given in the opposite order, ", "alone": "if it is the only text, "}
    where = next((words for name, words in orders.items() if difference.path.endswith(name)), "")
    return f"{where}text {place} ({text!r}) {got}; expected: it {expected}"


def labels(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(name, points, "clustering", "clusters", cases=cases, in_words=of_a_label, calls=("clusters",), **more)


PROBLEM = Problem(
    title="Near-duplicates",
    minutes=150,
    builds_on=(42,),
    entries=(
        Entry("shingles", ("text", "n")),
        Entry("minhash", ("shingle_set", "a", "b")),
        Entry("found_probability", ("similarity", "num_bands", "rows_per_band")),
        Entry("candidate_pairs", ("signatures", "num_bands")),
        Entry("clusters", ("pairs", "num_texts")),
        Entry("deduplicate", ("texts", "n", "a", "b", "num_bands", "threshold")),
    ),
    cases={
        "texts": Cases(texts, {"n": (2, 1, 3), "words": (5, 8), "marks": (0, 1, 1)}, draws=4),
        "scripts": Cases(texts, {"n": (1, 2), "words": (5,), "marks": (2,)}, draws=2, covers=("text", "one")),
        "short": Cases(short, {"n": (3,), "words": (2, 3, 0)}, draws=3),
        "sets": Cases(sets, {"S": (4, 9), "P": (5, 7)}, draws=3, covers=("coprime",)),
        "empty set": Cases(sets, {"S": (0,), "P": (4,)}, draws=1),
        "curves": Cases(curves, {"bands": (5, 20), "rows": (2, 3)}, draws=2),
        "signatures": Cases(signatures, {"N": (11,), "bands": (4, 5), "rows": (3, 2)}, draws=3),
        "graph": Cases(graph, {"N": (14, 15), "chain": (5, 6), "triangle": (0, 1)}, draws=3),
        "collection": Cases(collection, {"N": (33,), "P": (96,), "bands": (48,)}, draws=3, show=shown),
        "missed": Cases(collection, {"N": (33,), "P": (4,), "bands": (1,)}, draws=1, show=shown),
        "many texts": Cases(many, {"N": (12_000,)}, draws=1),
        "long chain": Cases(many, {"N": (60_000,)}, draws=1),
    },
    checks=(
        exact("shingles", 2, "shingling", "shingles", cases="texts", words=shingles_of, calls=("shingles",)),
        exact("words of all "
            "scripts", 1, "shingling", "shingles", cases="scripts", words=shingles_of, calls=("shingles",)),
        exact("short texts", 1, "shingling", "shingles", cases="short", words=shingles_of, calls=("shingles",)),
        exact(
            "signatures", 2, "signing", "signature", cases="sets", calls=("minhash",),
            advice="Row p is the smallest (a[p] x + b[p]) mod PRIME of all fingerprints x.",
        ),
        exact("signature of an empty set", 1, "signing", "signature", cases="empty set", calls=("minhash",)),
        exact(
            "probability of a pair", 1, "curve", "probability", cases="curves", tolerance=PROBABILITY,
            calls=("found_probability",),
        ),
        exact("candidates", 3, "bucketing", "pairs", cases="signatures", in_words=of_a_pair,
            calls=("candidate_pairs",)),
        labels("clusters", 2, "graph"),
        exact("texts that stay", 3, "keeping", "texts", cases="collection", in_words=of_a_text, calls=("deduplicate",)),
        exact("only candidates "
            "compared", 1, "keeping", "texts", cases="missed", in_words=of_a_text, calls=("deduplicate",)),
        exact(
            "work of many texts", 2, "bucketing_many", "pairs", cases="many "
                "texts", calls=("candidate_pairs",), cpu_seconds=4,
            advice="Do not compare texts with each other. A dictionary from the rows of a band to the texts that have "
            "them finds all pairs in one pass.",
        ),
        exact(
            "work of a long chain", 1, "clustering_many", "clusters", cases="long "
                "chain", calls=("clusters",), cpu_seconds=9,
            advice="Do not go through all labels for each pair. Let each text point to another one of its cluster, and "
            "follow the pointers to the root.",
        ),
    ),
)  # fmt: skip
