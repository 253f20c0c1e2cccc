"""Compares the model with the formula, for random parameters, in several sizes; and its entry with the model."""

import numpy as np


def norm(p, name, x):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * p[f"{name}.scale"] + p[f"{name}.bias"]


def linear(p, name, x):
    return x @ p[f"{name}.kernel"] + p[f"{name}.bias"]


def attention(p, name, x, heads):
    q, k, v = (linear(p, f"{name}.{each}_proj", x).reshape(len(x), heads, -1).swapaxes(0, 1) for each in "qkv")
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tril(np.ones((len(x), len(x)), bool))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return linear(p, f"{name}.out_proj", mixed.swapaxes(0, 1).reshape(x.shape))


def logits(p, ids, heads, layers):
    x = p["embed.embedding"][ids] + p["pos_embed"][: len(ids)]
    for number in range(layers):
        name = f"blocks.{number}"
        x = x + attention(p, f"{name}.attn", norm(p, f"{name}.ln1", x), heads)
        hidden = np.maximum(linear(p, f"{name}.ff1", norm(p, f"{name}.ln2", x)), 0)
        x = x + linear(p, f"{name}.ff2", hidden)
    return norm(p, "ln_f", x) @ p["embed.embedding"].T


def test(pieces):
    for rows, vocabulary, width, heads, inner, layers in (
        (5, 11, 8, 2, 12, 2),
        (4, 7, 3, 1, 5, 11),
        (1, 5, 4, 1, 6, 1),
    ):
        draws = np.random.default_rng(rows)
        sizes = (vocabulary, width, heads, inner, layers)
        ids = draws.integers(0, vocabulary, rows).astype(np.int32)
        model = pieces.MiniGPT(3, ids, *sizes)
        start = model.parameters()
        flat = np.asarray(pieces.mini_gpt_forward(3, ids, *sizes))
        assert flat.shape == (rows * vocabulary,)
        assert np.allclose(flat, logits(start, ids, heads, layers).reshape(-1), rtol=1e-2, atol=1e-2), sizes
        assert not np.allclose(pieces.mini_gpt_forward(4, ids, *sizes), flat), "the seed does not count"
        p = {name: (draws.normal(size=value.shape) / 2).astype(np.float32) for name, value in start.items()}
        model.set_parameters(p)
        found = np.asarray(model(ids))
        assert found.shape == (rows, vocabulary)
        assert np.allclose(found, logits(p, ids, heads, layers), rtol=1e-2, atol=1e-2), sizes
