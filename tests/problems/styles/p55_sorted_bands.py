"""Bands sorted in place of dictionaries; clusters by a walk through the neighbors; hashes one function at a time."""

import hashlib
import re
from collections import defaultdict

import numpy as np

PRIME = 2**31 - 1


def fingerprint(shingle):
    return int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little") % PRIME


def shingles(text, n):
    words = re.findall(r"\w+", text.lower())
    if not words:
        return set()
    runs = zip(*(words[start:] for start in range(min(n, len(words)))))
    return set(map(" ".join, runs))


def minhash(shingle_set, a, b):
    prints = [fingerprint(shingle) for shingle in shingle_set]
    return np.array([min([(m * x + c) % PRIME for x in prints], default=PRIME) for m, c in zip(a.tolist(), b.tolist())])


def found_probability(similarity, num_bands, rows_per_band):
    return 1 - np.prod(np.tile(1 - similarity**rows_per_band, (num_bands, 1)), axis=0)


def candidate_pairs(signatures, num_bands):
    found = set()
    for band in np.split(signatures, num_bands, axis=1):
        order = np.lexsort(band.T[::-1])
        ends = np.flatnonzero(np.any(band[order][1:] != band[order][:-1], axis=1)) + 1
        for group in np.split(order, ends):
            if len(group) > 1:
                group = sorted(group.tolist())
                found.update((i, j) for place, i in enumerate(group) for j in group[place + 1 :])
    return found


def clusters(pairs, num_texts):
    partners = defaultdict(list)
    for i, j in pairs:
        partners[i].append(j)
        partners[j].append(i)
    labels = [-1] * num_texts
    for first in range(num_texts):
        if labels[first] < 0:
            labels[first], open_ = first, [first]
            while open_:
                for other in partners[open_.pop()]:
                    if labels[other] < 0:
                        labels[other] = first
                        open_.append(other)
    return labels


def deduplicate(texts, n, a, b, num_bands, threshold):
    sets = [shingles(text, n) for text in texts]
    signatures = np.array([minhash(each, a, b) for each in sets]).reshape(len(texts), len(a))
    near = [
        (i, j)
        for i, j in candidate_pairs(signatures, num_bands)
        if sets[i] and sets[j] and len(sets[i] & sets[j]) >= threshold * len(sets[i] | sets[j])
    ]
    best = {}
    for i, label in enumerate(clusters(near, len(texts))):
        rank = (-len(texts[i]), texts[i])
        if label not in best or rank < best[label][0]:
            best[label] = (rank, i)
    return sorted(i for _, i in best.values())
