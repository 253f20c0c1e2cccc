"""Near-duplicates of texts, as problem 55 finds them: shingles, MinHash, bands and clusters (Broder 1997).

Shapes: N texts, P hash functions, S shingles of a text.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Int

PRIME = 2**31 - 1
BANDS, ROWS = 20, 5  # a pair of similarity 0.8 is found with a probability of 0.9996, one of 0.3 with 0.05
CHUNK = 1 << 12  # shingles that are hashed together

# (texts, words in a shingle, factors (P,), offsets (P,), bands, threshold) -> the indices of the texts that stay
Deduplicate = Callable[[Sequence[str], int, np.ndarray, np.ndarray, int, float], Sequence[int]]


def hash_functions(seed: int = 0) -> tuple[Int[np.ndarray, "P"], Int[np.ndarray, "P"]]:
    """The factors and offsets of the functions (a x + b) mod PRIME."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, PRIME, BANDS * ROWS), rng.integers(0, PRIME, BANDS * ROWS)


def fingerprints(text: str, n: int) -> Int[np.ndarray, "S"]:
    """The numbers of all runs of n words of a text, sorted; of all its words if it has fewer. They are lower case."""
    words = re.findall(r"\w+", text.lower())
    runs = {" ".join(words[start : start + n]) for start in range(max(len(words) - n + 1, min(len(words), 1)))}
    digests = (hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest() for run in runs)
    return np.unique(np.array([int.from_bytes(digest, "little") % PRIME for digest in digests], np.int64))


def deduplicate(
    texts: Sequence[str],
    n: int,
    a: Int[np.ndarray, "P"],
    b: Int[np.ndarray, "P"],
    num_bands: int,
    threshold: float,
) -> list[int]:
    """The indices of the texts that stay, in order. Of each cluster of near-duplicates it is the longest, of equally
    long ones the first of the alphabet: the order of the texts decides nothing.

    Two texts are near-duplicates if they share a band and their sets of runs of n words have at least this Jaccard
    similarity. Texts without words are none.
    """
    sets = [fingerprints(text, n) for text in texts]
    same: dict[bytes, list[int]] = defaultdict(list)  # texts of equal sets need no comparison
    for index, each in enumerate(sets):
        if len(each):
            same[each.tobytes()].append(index)
    firsts = [equal[0] for equal in same.values()]
    clusters = _Clusters(len(texts))
    for equal in same.values():
        for other in equal[1:]:
            clusters.join(equal[0], other)
    signatures = [_signature(sets[index], a, b) for index in firsts]
    for left, right in _candidates(signatures, num_bands):
        one, other = firsts[left], firsts[right]
        if not clusters.are_joined(one, other) and _similarity(sets[one], sets[other]) >= threshold:
            clusters.join(one, other)
    members: dict[int, list[int]] = defaultdict(list)
    for index in range(len(texts)):
        members[clusters.root(index)].append(index)
    return sorted(min(each, key=lambda index: (-len(texts[index]), texts[index], index)) for each in members.values())


def _signature(numbers: Int[np.ndarray, "S"], a: Int[np.ndarray, "P"], b: Int[np.ndarray, "P"]) -> np.ndarray:
    """The minimum of each hash function over a set."""
    parts = [numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK)]
    return np.min([((a[:, None] * part + b[:, None]) % PRIME).min(axis=1) for part in parts], axis=0)


def _candidates(signatures: Sequence[np.ndarray], num_bands: int) -> Iterator[tuple[int, int]]:
    """The pairs of texts that agree in all rows of a band."""
    for band in range(num_bands):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for index, signature in enumerate(signatures):
            rows = len(signature) // num_bands
            buckets[signature[band * rows : (band + 1) * rows].tobytes()].append(index)
        for bucket in buckets.values():
            yield from combinations(bucket, 2)


def _similarity(one: np.ndarray, other: np.ndarray) -> float:
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


class _Clusters:
    """Sets of texts that can be joined, by union and find (Galler and Fischer 1964)."""

    def __init__(self, number: int):
        self._parent = list(range(number))

    def root(self, index: int) -> int:
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]  # halves the path
            index = parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.root(one), self.root(other)))
        self._parent[high] = low

    def are_joined(self, one: int, other: int) -> bool:
        return self.root(one) == self.root(other)
