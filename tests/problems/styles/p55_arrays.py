"""Arrays: bands sorted by NumPy, clusters by SciPy, one fingerprint at a time."""

import hashlib
import re
from itertools import combinations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

PRIME = 2**31 - 1


def fingerprint(shingle):
    return int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little") % PRIME


def shingles(text, n):
    words = np.array(re.findall(r"\w+", text.lower()), dtype=object)
    windows = np.lib.stride_tricks.sliding_window_view(words, min(n, len(words))) if len(words) else []
    return {" ".join(window) for window in windows}


def minhash(shingle_set, a, b):
    smallest = np.full(len(a), PRIME)
    for shingle in shingle_set:
        smallest = np.minimum(smallest, (a * fingerprint(shingle) + b) % PRIME)
    return smallest


def found_probability(similarity, num_bands, rows_per_band):
    with np.errstate(divide="ignore"):
        return -np.expm1(num_bands * np.log1p(-(similarity**rows_per_band)))


def candidate_pairs(signatures, num_bands):
    D, P = signatures.shape
    found = set()
    for band in signatures.reshape(D, num_bands, P // num_bands).swapaxes(0, 1):
        order = np.lexsort(band.T)
        new = np.append(True, (band[order][1:] != band[order][:-1]).any(axis=1))
        for bucket in np.split(order, np.flatnonzero(new)[1:]):
            found |= set(combinations(sorted(bucket.tolist()), 2)) if len(bucket) > 1 else set()
    return found


def clusters(pairs, num_texts):
    left, right = np.array(list(pairs), int).reshape(-1, 2).T
    _, component = connected_components(coo_matrix((np.ones(len(left)), (left, right)), (num_texts, num_texts)), False)
    _, first, inverse = np.unique(component, return_index=True, return_inverse=True)
    return first[inverse].tolist()


def deduplicate(texts, n, a, b, num_bands, threshold):
    sets = [shingles(text, n) for text in texts]
    pairs = candidate_pairs(np.stack([minhash(each, a, b) for each in sets]), num_bands)
    pairs = [
        (i, j) for i, j in pairs if sets[i] | sets[j] and len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= threshold
    ]
    labels = np.array(clusters(pairs, len(texts)))
    kept = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label).tolist()
        longest = max(len(texts[i]) for i in members)
        kept.append(min((texts[i], i) for i in members if len(texts[i]) == longest)[1])
    return sorted(kept)
