"""A test of next_token_loss as courses usually have it: expected values from a file, an eager call, allclose.

pytest snapshot_test.py    with SUBMISSION the file to test and SNAPSHOT the expected values (.npz)
"""

import importlib.util
import os

import jax
import jax.numpy as jnp
import numpy as np


def test_next_token_loss() -> None:
    spec = importlib.util.spec_from_file_location("submission", os.environ["SUBMISSION"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored = np.load(os.environ["SNAPSHOT"])
    for number in range(int(stored["count"])):
        logits, ids, pad = (stored[f"{name}{number}"] for name in ("logits", "ids", "pad"))

        def loss(logits, ids=ids, pad=pad):
            return module.next_token_loss(logits, jnp.asarray(ids), int(pad))

        np.testing.assert_allclose(loss(jnp.asarray(logits)), stored[f"loss{number}"], rtol=1e-4)
        np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(logits)), stored[f"gradient{number}"], atol=1e-5)
