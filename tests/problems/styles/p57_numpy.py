"""NumPy in float64, which cannot be traced, with a generator of windows as in lm-eval."""

import numpy as np


def log_softmax(x):
    x = np.asarray(x, np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def windows(N, context, stride):
    yield 0, 1, min(context, N - 1) + 1
    begin, scored = 0, min(context, N - 1) + 1
    while scored < N:
        begin += stride
        end = min(begin + context + 1, N)
        yield begin, scored, end
        scored = end


def score_text(model, token_ids, context, stride):
    ids = np.asarray(token_ids)
    out = np.zeros(len(ids) - 1, np.float32)
    if len(ids) == 1:
        return out
    for begin, first, end in windows(len(ids), context, stride):
        rows = log_softmax(model(ids[begin : end - 1]))
        for place in range(first, end):
            out[place - 1] = rows[place - 1 - begin, ids[place]]
    return out


def perplexity(log_probs):
    return np.float32(np.exp(-np.mean(np.asarray(log_probs, np.float64))))


def bits_per_byte(log_probs, token_ids, byte_lengths):
    size = np.asarray(byte_lengths)[np.asarray(token_ids)[1:]].sum()
    return np.float32(-np.asarray(log_probs, np.float64).sum() / np.log(2) / size)


def score_options(model, prompt_ids, options, context):
    scores = []
    for option in options:
        whole = np.concatenate([np.asarray(prompt_ids), np.asarray(option)])
        start = max(0, len(whole) - 1 - context)
        rows = log_softmax(model(whole[start:-1]))[-len(option) :]
        scores.append(rows[np.arange(len(option)), np.asarray(option)].sum())
    return np.array(scores, np.float32)


def choose_option(log_probs, byte_counts):
    log_probs = np.asarray(log_probs)
    return np.int32(log_probs.argmax()), np.int32((log_probs / np.asarray(byte_counts)).argmax())
