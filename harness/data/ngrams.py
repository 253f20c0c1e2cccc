"""What a model has to beat: unigram and bigram models of the same tokens, counted on the training split."""

from typing import NamedTuple

import numpy as np

from harness.data.token_files import Tokens

COUNT_TOKENS = 1 << 26  # of the training split at most: more does not move the figures


class NgramLoss(NamedTuple):
    """Nats a token on the validation split."""

    unigram: float
    bigram: float


def ngram_loss(train: Tokens, validation: Tokens, vocab_size: int) -> NgramLoss:
    """Cross-entropy of both models on the validation split.

    Unigram: add-one counts. Bigram: interpolated with the unigram by how many different tokens follow a token (Witten and
    Bell 1991).
    """
    ids = train[0 : min(len(train), COUNT_TOKENS)].astype(np.int64)
    held = validation[0 : min(len(validation), COUNT_TOKENS)].astype(np.int64)
    counts = np.bincount(ids, minlength=vocab_size)
    unigram = (counts + 1) / (counts.sum() + vocab_size)
    pairs, pair_counts = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)
    followers = np.bincount(pairs // vocab_size, minlength=vocab_size)
    firsts = np.bincount(ids[:-1], minlength=vocab_size)
    previous, following = held[:-1], held[1:]
    place = np.searchsorted(pairs, previous * vocab_size + following)
    found = pairs[np.minimum(place, len(pairs) - 1)] == previous * vocab_size + following
    seen = np.where(found, pair_counts[np.minimum(place, len(pairs) - 1)], 0)
    total = firsts[previous] + followers[previous]
    bigram = np.where(
        total > 0, (seen + followers[previous] * unigram[following]) / np.maximum(total, 1), unigram[following]
    )
    return NgramLoss(float(-np.log(unigram[following]).mean()), float(-np.log(bigram).mean()))
