"""Problem 55, reference: near-duplicates by shingles, MinHash, bands and clusters."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

PRIME = 2**31 - 1


def fingerprint(shingle: str) -> int:
    """A number below PRIME that is the same in each process."""
    return int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little") % PRIME


def shingles(text: str, n: int) -> set[str]:
    """All n words in a row (Broder 1997), and all words of a text that has fewer."""
    words = re.findall(r"\w+", text.lower())
    if len(words) < n:
        return {" ".join(words)} if words else set()
    return {" ".join(words[start : start + n]) for start in range(len(words) - n + 1)}


def minhash(shingle_set: set[str], a: Int[np.ndarray, "P"], b: Int[np.ndarray, "P"]) -> Int[np.ndarray, "P"]:
    """The minimum of each hash function over the set; PRIME for an empty set."""
    x_S = np.array([fingerprint(shingle) for shingle in shingle_set], np.int64)
    hashes_PS = (a[:, None] * x_S + b[:, None]) % PRIME
    return hashes_PS.min(axis=1, initial=PRIME)


def found_probability(similarity: Float[np.ndarray, "M"], num_bands: int, rows_per_band: int) -> Float[np.ndarray, "M"]:
    """The probability that two texts agree in all rows of one band or more."""
    return 1 - (1 - similarity**rows_per_band) ** num_bands


def candidate_pairs(signatures: Int[np.ndarray, "N P"], num_bands: int) -> set[tuple[int, int]]:
    """Texts in the same bucket of a band. Each band has its own table."""
    pairs = set[tuple[int, int]]()
    for band in np.split(signatures, num_bands, axis=1):
        buckets = defaultdict(list)
        for text, key in enumerate(band):
            buckets[key.tobytes()].append(text)
        for bucket in buckets.values():
            pairs.update(combinations(bucket, 2))
    return pairs


def clusters(pairs: Iterable[tuple[int, int]], num_texts: int) -> list[int]:
    """The smallest index of each text's connected component, by union and find (Galler and Fischer 1964)."""
    parent = list(range(num_texts))

    def root(text: int) -> int:
        while parent[text] != text:
            parent[text] = parent[parent[text]]  # halves the path
            text = parent[text]
        return text

    for left, right in pairs:
        low, high = sorted((root(left), root(right)))
        parent[high] = low
    return [root(text) for text in range(num_texts)]


def deduplicate(
    texts: Sequence[str],
    n: int,
    a: Int[np.ndarray, "P"],
    b: Int[np.ndarray, "P"],
    num_bands: int,
    threshold: float,
) -> list[int]:
    """Candidates are compared exactly. Of each cluster, the longest text stays."""
    sets = [shingles(text, n) for text in texts]
    signatures = np.stack([minhash(each, a, b) for each in sets])
    pairs = [
        (left, right)
        for left, right in candidate_pairs(signatures, num_bands)
        if sets[left] and len(sets[left] & sets[right]) / len(sets[left] | sets[right]) >= threshold
    ]
    members = defaultdict(list)
    for text, label in enumerate(clusters(pairs, len(texts))):
        members[label].append(text)
    return sorted(min(each, key=lambda text: (-len(texts[text]), texts[text], text)) for each in members.values())
