"""Compares the module with the formula, for random parameters and for queries of zeros."""

import numpy as np


def expected(p, x, heads):
    q, k, v = (
        (x @ p[f"{name}_proj.kernel"] + p[f"{name}_proj.bias"]).reshape(len(x), heads, -1).swapaxes(0, 1)
        for name in "qkv"
    )
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tril(np.ones((len(x), len(x)), bool))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
    return mixed @ p["out_proj.kernel"] + p["out_proj.bias"]


def test(pieces):
    for rows, heads, width, scale in ((5, 2, 4, 1.0), (4, 3, 5, 1.0), (5, 1, 4, 0.0), (1, 12, 1, 1.0)):
        draws = np.random.default_rng(rows)
        module = pieces.CausalMHA(heads * width, heads, rngs=0)
        p = {name: draws.normal(size=value.shape).astype(np.float32) for name, value in module.parameters().items()}
        for name in ("q_proj.kernel", "q_proj.bias"):
            p[name] *= scale
        module.set_parameters(p)
        x = draws.normal(size=(rows, heads * width)).astype(np.float32)
        found = np.asarray(module(x))
        assert found.shape == x.shape
        assert np.allclose(found, expected(p, x, heads), rtol=1e-3, atol=1e-3), (rows, heads, width)
