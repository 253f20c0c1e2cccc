"""The gated delta rule in chunks equals its recurrence, and its cache holds all that a step needs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.model.gated_delta import delta_rule
from tests.harness.model.test_gpt import SMALL, filled, logits_of, step_of


def recurrence(*given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q, k, v, beta, log_alpha, state = given
    out = []
    for t in range(len(q)):
        key, query = k[t] / np.linalg.norm(k[t]), q[t] / np.linalg.norm(q[t]) / np.sqrt(q.shape[1])
        state = np.exp(log_alpha[t]) * state
        state = state + beta[t] * np.outer(key, v[t] - key @ state)
        out.append(query @ state)
    return np.stack(out), state


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_chunks_give_the_recurrence(chunk: int) -> None:
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 11, 5))
    v, state, beta, log_alpha = (
        rng.normal(size=(11, 3)), rng.normal(size=(5, 3)), rng.uniform(size=11), -rng.uniform(0, 3, 11)
    )  # fmt: skip
    given = [jnp.asarray(x, jnp.float32) for x in (q, k, v, beta, log_alpha, state)]
    out, last = jax.jit(delta_rule, static_argnums=6)(*given, chunk)
    expected, expected_last = recurrence(q, k, v, beta, log_alpha, state)
    np.testing.assert_allclose(out, expected, atol=2e-5)
    np.testing.assert_allclose(last, expected_last, atol=2e-5)


def test_a_prompt_shorter_than_the_convolution_is_remembered() -> None:
    """And padding behind it leaves no trace."""
    config = replace(SMALL, mixer="gated_delta", key_heads=1, value_heads=2, conv_width=4, positions="none")
    model = filled(config)
    ids = jnp.array([[5, 9, 3, 8, 1, 7]])
    expected = logits_of(model, ids)[0]
    logits, cache = step_of(model, jnp.array([[5, 9, 77, 77]]), 0, 1, model.empty_cache(1))
    np.testing.assert_allclose(logits[0], expected[1], atol=1e-4)
    for position in range(2, 6):
        logits, cache = step_of(model, ids[:, position : position + 1], position, 0, cache)
        np.testing.assert_allclose(logits[0], expected[position], atol=1e-4)
