"""The distribution in NumPy float64; tokens drawn by inverting the cumulative sum."""

import jax
import numpy as np


def sampling_distribution(logits, temperature, top_k, top_p):
    x = np.asarray(logits, np.float64)
    if temperature == 0:
        p = np.zeros_like(x)
        p[x.argmax()] = 1
        return p.astype(np.float32)
    p = np.exp((x - x.max()) / temperature)
    p /= p.sum()
    ranks = np.argsort(-p)
    if top_k:
        p[ranks[top_k:]] = 0
        p /= p.sum()
    total = 0.0
    for token in ranks:
        if total >= top_p:
            p[token] = 0
        total += p[token]
    return (p / p.sum()).astype(np.float32)


def generate(model, prompt, num_tokens, context, stop_token, key, temperature, top_k, top_p):
    uniform = np.asarray(jax.random.uniform(key, (num_tokens,)))
    tokens = list(map(int, prompt))
    new = []
    for u in uniform:
        window = tokens[-context:]
        row = len(window) - 1
        window = np.array(window + [window[-1]] * (context - len(window)))
        p = sampling_distribution(model(window)[row], temperature, top_k, top_p)
        token = min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(p) - 1)
        if token == stop_token:
            break
        tokens.append(token)
        new.append(token)
    return np.array(new, dtype=np.int32)
