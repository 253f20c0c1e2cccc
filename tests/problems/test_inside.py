"""The references of the problems on what is inside a model agree with independent oracles."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

from grader.problem import Case
from grader.worker.toy_models import ToyGPT, gpt_logits
from tests.conftest import ROOT

SIZES = {"vocab_size": 11, "d_model": 12, "num_heads": 3, "d_ff": 10, "num_layers": 2, "context": 7}


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.fixture(scope="module")
def gpt():
    return ToyGPT.of(Case(SIZES, seed=3))


def test_the_last_row_of_the_lens_is_the_model(gpt):
    from p59_logit_lens import logit_lens

    token_ids = jnp.array([3, 1, 4, 1, 5])
    np.testing.assert_allclose(logit_lens(gpt, token_ids)[-1], gpt_logits(gpt, token_ids), atol=1e-5)


def test_a_part_of_a_logit_is_what_is_missing_without_its_vector(gpt):
    """With the standard deviation held fixed, the logit of the last stream minus that of the stream without one vector."""
    from p59_logit_lens import logit_parts, run

    token_ids, token_id = jnp.array([3, 1, 4, 1, 5]), 7
    stream, mixed, hidden = (np.asarray(each, np.float64) for each in run(gpt, token_ids))
    sigma, norm = np.sqrt(stream[-1, -1].var() + 1e-6), gpt.ln_f
    row = np.asarray(gpt.embed.embedding[token_id], np.float64)

    def logit(x):
        return (norm.scale[...] * (x - x.mean()) / sigma + norm.bias[...]) @ row

    def without(vector):
        return logit(stream[-1, -1]) - logit(stream[-1, -1] - np.asarray(vector, np.float64))

    embeddings, heads, neurons, biases = logit_parts(gpt, token_ids, jnp.int32(token_id))
    vectors = [gpt.embed(token_ids[-1]), gpt.pos_embed[4]]
    np.testing.assert_allclose(embeddings, [without(vector) for vector in vectors], atol=1e-5)
    for i, block in enumerate(gpt.blocks):
        for h in range(3):
            alone = np.zeros((3, 4), np.float32)
            alone[h] = mixed[i, -1, h]
            vector = block.attn.out_proj(alone.reshape(-1)) - block.attn.out_proj.bias[...]
            np.testing.assert_allclose(heads[i, h], without(vector), atol=1e-5)
        for f in range(10):
            alone = np.zeros(10, np.float32)
            alone[f] = hidden[i, -1, f]
            np.testing.assert_allclose(neurons[i, f], without(block.ff2(alone) - block.ff2.bias[...]), atol=1e-5)
    total = embeddings.sum() + heads.sum() + neurons.sum() + biases
    np.testing.assert_allclose(total, gpt_logits(gpt, token_ids)[-1, token_id], rtol=1e-5)


def test_hand_written_heads_copy_in_an_independent_model():
    """In float64 NumPy, on a text in which a token comes again after each distance."""
    from p61_induction_heads import induction_weights

    V, P = 9, 15
    w = {name: np.asarray(array, np.float64) for name, array in induction_weights(V, P).items()}
    for distance in range(2, 8):
        ids = [*range(distance), 0]
        x = w["embed"][ids] + w["positions"][: len(ids)]
        for layer in range(2):
            q, k, v = (x @ w[name][layer] for name in "qkv")
            scores = np.where(np.tri(len(ids)), q @ k.T / np.sqrt(q.shape[1]), -np.inf)
            pattern = np.exp(scores - scores.max(axis=1, keepdims=True))
            pattern /= pattern.sum(axis=1, keepdims=True)
            x = x + pattern @ v @ w["o"][layer]
        assert pattern[-1].argmax() == 1
        assert (x[-1] @ w["unembed"]).argmax() == 1


def test_composition_does_not_depend_on_the_coordinates_inside_a_head():
    from p61_induction_heads import compositions

    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 9, 4))
    o, turn = rng.standard_normal((2, 4, 9)), np.linalg.qr(rng.standard_normal((4, 4)))[0]
    scores = compositions({"q": q, "k": k, "v": v, "o": o})
    np.testing.assert_allclose(
        compositions({"q": q @ turn, "k": k @ turn, "v": v @ turn, "o": turn.T @ o}), scores, rtol=1e-5
    )
    bound = np.linalg.norm(v[0] @ o[0], 2) / np.linalg.norm(v[0] @ o[0])
    assert all(0 < float(score) <= bound for score in scores)
