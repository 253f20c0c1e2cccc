"""Python integers, dictionaries of sets, and a walk over neighbors in place of union and find."""

import hashlib
import re

import numpy as np

PRIME = 2**31 - 1


def fingerprint(shingle):
    return int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little") % PRIME


def shingles(text, n):
    found, window = set(), []
    for match in re.finditer(r"\w+", text):
        window = [*window, match.group().lower()][-n:]
        if len(window) == n:
            found.add(" ".join(window))
    return found or ({" ".join(window)} if window else set())


def minhash(shingle_set, a, b):
    numbers = [fingerprint(shingle) for shingle in shingle_set]
    return np.array(
        [
            min(((p * x + q) % PRIME for x in numbers), default=PRIME)
            for p, q in zip(a.tolist(), b.tolist(), strict=True)
        ]
    )


def found_probability(similarity, num_bands, rows_per_band):
    missed = np.ones_like(similarity)
    for _ in range(num_bands):
        missed *= 1 - similarity**rows_per_band
    return 1 - missed


def candidate_pairs(signatures, num_bands):
    table, pairs = {}, set()
    rows = signatures.shape[1] // num_bands
    for text, signature in enumerate(signatures.tolist()):
        for band in range(num_bands):
            bucket = table.setdefault((band, *signature[band * rows : (band + 1) * rows]), [])
            pairs |= {(other, text) for other in bucket}
            bucket.append(text)
    return pairs


def clusters(pairs, num_texts):
    partners = [[] for _ in range(num_texts)]
    for left, right in pairs:
        partners[left].append(right)
        partners[right].append(left)
    labels = [None] * num_texts
    for first in range(num_texts):
        to_visit = [first] if labels[first] is None else []
        while to_visit:
            text = to_visit.pop()
            if labels[text] is None:
                labels[text] = first
                to_visit += partners[text]
    return labels


def deduplicate(texts, n, a, b, num_bands, threshold):
    sets = [shingles(text, n) for text in texts]
    signatures = np.array([minhash(each, a, b) for each in sets])

    def alike(left, right):
        both = len(sets[left] & sets[right])
        return both > 0 and both / (len(sets[left]) + len(sets[right]) - both) >= threshold

    labels = clusters([pair for pair in candidate_pairs(signatures, num_bands) if alike(*pair)], len(texts))
    order = sorted(
        range(len(texts)), key=lambda text: (len(texts[text]), [-ord(letter) for letter in texts[text]], -text)
    )
    best = {labels[text]: text for text in order}
    return sorted(best.values())
