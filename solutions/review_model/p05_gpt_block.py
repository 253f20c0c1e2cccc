"""Compares the block with the formula, for random parameters, on ordinary rows and on faint ones."""

import numpy as np


def norm(x, scale, bias):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * scale + bias


def attention(p, x, heads):
    q, k, v = (
        (x @ p[f"attn.{name}_proj.kernel"] + p[f"attn.{name}_proj.bias"]).reshape(len(x), heads, -1).swapaxes(0, 1)
        for name in "qkv"
    )
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tril(np.ones((len(x), len(x)), bool))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
    return mixed @ p["attn.out_proj.kernel"] + p["attn.out_proj.bias"]


def test(pieces):
    for rows, heads, width, inner, size in ((4, 2, 3, 10, 1.0), (5, 3, 4, 7, 1.0), (1, 1, 5, 8, 1e-3)):
        draws = np.random.default_rng(rows)
        block = pieces.GPTBlock(heads * width, heads, inner, rngs=0)
        p = {name: draws.normal(size=value.shape).astype(np.float32) for name, value in block.parameters().items()}
        block.set_parameters(p)
        x = (size * draws.normal(size=(rows, heads * width))).astype(np.float32)
        y = x + attention(p, norm(x, p["ln1.scale"], p["ln1.bias"]), heads)
        hidden = norm(y, p["ln2.scale"], p["ln2.bias"]) @ p["ff1.kernel"] + p["ff1.bias"]
        expected = y + np.maximum(hidden, 0) @ p["ff2.kernel"] + p["ff2.bias"]
        found = np.asarray(block(x))
        assert found.shape == x.shape
        assert np.allclose(found, expected, rtol=5e-3, atol=5e-3), (rows, heads, width)
