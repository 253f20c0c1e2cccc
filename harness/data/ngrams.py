"""Baselines: unigram and bigram models of the same tokens, counted on the training split."""

from typing import NamedTuple

import numpy as np

from harness.data.token_files import Tokens

MAX_TOKENS = 1 << 26  # per split; more do not change the losses noticeably


class NgramLoss(NamedTuple):
    """Losses on the validation split, in nats per token."""

    unigram: float
    bigram: float


def ngram_loss(train: Tokens, validation: Tokens, vocab_size: int) -> NgramLoss:
    """Cross-entropy of both models on the validation split.

    The unigram model uses add-one counts. The bigram model is interpolated with it, weighted by the number of distinct
    tokens that follow a token (Witten and Bell 1991).
    """
    ids = train[0 : min(len(train), MAX_TOKENS)].astype(np.int64)
    validation_ids = validation[0 : min(len(validation), MAX_TOKENS)].astype(np.int64)
    counts = np.bincount(ids, minlength=vocab_size)
    unigram = (counts + 1) / (counts.sum() + vocab_size)
    pairs, pair_counts = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)
    followers = np.bincount(pairs // vocab_size, minlength=vocab_size)
    firsts = np.bincount(ids[:-1], minlength=vocab_size)
    previous, following = validation_ids[:-1], validation_ids[1:]
    wanted = previous * vocab_size + following
    index = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    seen = np.where(pairs[index] == wanted, pair_counts[index], 0)
    total = firsts[previous] + followers[previous]
    bigram = np.where(
        total > 0, (seen + followers[previous] * unigram[following]) / np.maximum(total, 1), unigram[following]
    )
    return NgramLoss(float(-np.log(unigram[following]).mean()), float(-np.log(bigram).mean()))
