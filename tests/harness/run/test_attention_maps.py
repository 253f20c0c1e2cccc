"""Attention weights found in the program of a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.model.sampling import Sampling, choose_token, distribution
from harness.run.attention_maps import attention_maps
from tests.harness.model.test_gpt import VARIANTS, filled


@pytest.mark.parametrize("name", ["rope", "latent attention"])
def test_each_layer_of_the_harness_has_its_weights(name: str) -> None:
    config = VARIANTS[name]
    maps = attention_maps(filled(config), np.arange(9), config.num_heads)
    assert [weights.shape for weights in maps] == [(config.num_heads, 9, 9)] * config.num_layers
    for weights in maps:
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        assert not np.triu(weights, 1).any()
    assert not np.allclose(maps[0], maps[1], atol=1e-6)


def test_a_state_space_has_none() -> None:
    assert attention_maps(filled(VARIANTS["state space"]), np.arange(9), 2) == []


def test_layers_of_two_kinds_have_the_weights_of_their_own_kind() -> None:
    config = VARIANTS["layers of two kinds"]  # the second of three has no window
    maps = attention_maps(filled(config), np.arange(9), config.num_heads)
    far = np.tril(np.ones((9, 9)), -config.window).astype(bool)
    assert [bool(weights[:, far].any()) for weights in maps] == [False, True, False]
    np.testing.assert_allclose(np.stack(maps).sum(-1), 1, rtol=1e-5)


class HeadByHead(nnx.Module):
    """Attention as a learner may write it: one product for each head."""

    def __call__(self, ids: jax.Array) -> jax.Array:
        x = jax.nn.one_hot(ids, 8) @ jnp.arange(32.0).reshape(8, 4)
        mask = jnp.tril(jnp.ones((len(ids), len(ids))))
        heads = []
        for scale in (0.1, 0.2):
            scores = jnp.where(mask == 0, -1e9, scale * x @ x.T)
            heads.append(jax.nn.softmax(scores, axis=-1) @ x)
        return jnp.concatenate(heads, -1)


def test_the_heads_of_another_model_are_found() -> None:
    ids = np.array([3, 1, 4, 1, 5])
    (weights,) = attention_maps(HeadByHead(), ids, 2)
    x = np.eye(8)[ids] @ np.arange(32.0).reshape(8, 4)
    scores = np.where(np.tril(np.ones((5, 5))) == 0, -1e9, 0.2 * x @ x.T)
    np.testing.assert_allclose(weights[1], jax.nn.softmax(scores), rtol=1e-3, atol=1e-6)


def test_the_distribution_is_what_tokens_are_drawn_from() -> None:
    logits = jnp.log(jnp.array([0.1, 0.4, 0.05, 0.25, 0.2]))
    keys = jax.random.split(jax.random.key(0), 4000)
    for settings in ((1.0, 0, 1.0), (0.5, 3, 1.0), (1.0, 3, 0.5), (0.0, 0, 1.0), (1.3, 0, 0.6)):
        probabilities, ids = distribution(logits, *settings)
        sampling = Sampling(*settings)
        drawn = jax.vmap(lambda key, sampling=sampling: choose_token(logits, key, sampling))(keys)
        share = np.bincount(np.asarray(drawn), minlength=5) / 4000
        np.testing.assert_allclose(share[np.asarray(ids)], probabilities, atol=0.035)
