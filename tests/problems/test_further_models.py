"""The references of the part "Further models and meshes" agree with independent oracles."""

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def softmax(x: np.ndarray) -> np.ndarray:
    """In float64."""
    odds = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def test_the_soft_loss_is_the_divergence_and_its_gradient_that_of_hinton():
    """Row by row in NumPy: T² KL(p‖q), and T (q - p) for each logit (Hinton et al. 2015, equation 2)."""
    from p70_distillation import token_loss

    rng, T = np.random.default_rng(0), 3.0
    student, teacher = rng.standard_normal((2, 5, 7)).astype("float32")
    ids, is_target = rng.integers(0, 7, 5), np.array([False, True, True, False, True])
    p, q, rows = softmax(teacher / T), softmax(student / T), [0, 1, 3]
    soft, gradient = jax.value_and_grad(token_loss)(student, teacher, ids, is_target, T, 1.0)
    np.testing.assert_allclose(soft, T**2 * np.mean([np.sum(p[t] * np.log(p[t] / q[t])) for t in rows]), rtol=1e-5)
    expected = np.zeros((5, 7))
    expected[rows] = T * (q - p)[rows] / 3
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    hard = token_loss(student, teacher, ids, is_target, T, 0.0)
    np.testing.assert_allclose(hard, -np.mean([np.log(softmax(student)[t, ids[t + 1]]) for t in rows]), rtol=1e-5)


def test_the_divergence_of_kept_tokens_is_bounded_by_the_full_one():
    """It is that of the lumped distributions, grows with k, and reaches the full divergence."""
    from p70_distillation import top_k_loss, top_k_targets

    rng, T = np.random.default_rng(1), 2.0
    student, teacher = rng.standard_normal((2, 3, 6)).astype("float32")
    p, q = softmax(teacher / T), softmax(student / T)
    losses = []
    for k in range(1, 7):
        ids, log_p = top_k_targets(teacher, k, T)
        kept = [np.take_along_axis(x, np.asarray(ids), 1) for x in (p, q)]
        lumped = [np.append(x, 1 - x.sum(1, keepdims=True), 1) for x in kept]
        if k == 6:
            lumped = [x[:, :6] for x in lumped]
        losses.append(float(top_k_loss(student, ids, log_p, T)))
        np.testing.assert_allclose(
            losses[-1], T**2 * optax.kl_divergence(np.log(lumped[1]), lumped[0]).mean(), rtol=1e-4
        )
        assert abs(top_k_loss(teacher, ids, log_p, T)) < 1e-5
    assert losses == sorted(losses)
    np.testing.assert_allclose(losses[-1], T**2 * np.sum(p * np.log(p / q)) / 3, rtol=1e-5)


def test_the_sequence_loss_is_the_cross_entropy_of_whole_texts():
    """Over all texts of two tokens, weighted by the teacher, it is the teacher's entropy plus the divergence of texts."""
    from p70_distillation import sequence_loss

    rng = np.random.default_rng(2)
    first, second = softmax(rng.standard_normal((2, 3))), softmax(rng.standard_normal((2, 3, 3)))
    law = [first[i][:, None] * second[i] for i in range(2)]  # of the teacher and of the student, (3, 3)
    total = 0.0
    for a, b in itertools.product(range(3), repeat=2):
        logits = np.log(np.stack([first[1], second[1][a], np.ones(3)]))[None].astype("float32")
        total += law[0][a, b] * float(sequence_loss(logits, jnp.array([[0, a, b]]), jnp.array([[False, True, True]])))
    np.testing.assert_allclose(total, -np.sum(law[0] * np.log(law[1])), rtol=1e-5)
