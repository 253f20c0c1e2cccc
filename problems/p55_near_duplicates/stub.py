"""Problem 55: near-duplicates. The page is in pages/p55_near_duplicates.md."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

PRIME = 2**31 - 1


def fingerprint(shingle: str) -> int:
    """A number below PRIME that is the same in each process."""
    digest = hashlib.blake2b(shingle.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % PRIME


def shingles(text: str, n: int) -> set[str]:
    """All runs of n words, in lower case and joined by spaces. A text with fewer words
    is one shingle, unless it has none."""
    raise NotImplementedError


def minhash(
    shingle_set: set[str],
    a: Int[np.ndarray, "P"],
    b: Int[np.ndarray, "P"],
) -> Int[np.ndarray, "P"]:
    """The signature: for each p, the smallest (a[p] x + b[p]) mod PRIME of all
    fingerprints x. PRIME for an empty set."""
    raise NotImplementedError


def found_probability(
    similarity: Float[np.ndarray, "M"],
    num_bands: int,
    rows_per_band: int,
) -> Float[np.ndarray, "M"]:
    """The probability that two texts of this similarity are a candidate pair."""
    raise NotImplementedError


def candidate_pairs(
    signatures: Int[np.ndarray, "N P"],
    num_bands: int,
) -> set[tuple[int, int]]:
    """The pairs (i, j), i < j, of texts whose signatures agree in all
    rows of at least one band."""
    raise NotImplementedError


def clusters(pairs: Iterable[tuple[int, int]], num_texts: int) -> list[int]:
    """For each text, the smallest index of its cluster. Texts that pairs
    connect are in the same one."""
    raise NotImplementedError


def deduplicate(
    texts: Sequence[str],
    n: int,
    a: Int[np.ndarray, "P"],
    b: Int[np.ndarray, "P"],
    num_bands: int,
    threshold: float,
) -> list[int]:
    """The indices of the texts that stay, ascending: one of each
    cluster of near-duplicates."""
    raise NotImplementedError
