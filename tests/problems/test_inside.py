"""The references of the problems on what is inside a model agree with independent oracles."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

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
    """With the standard deviation held fixed, the logit of the last stream minus that of the stream without one
    vector."""
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


def test_before_the_first_block_a_patch_is_a_change_of_the_token(gpt):
    """The score of row 0 is that of the text in which one token is exchanged, without any patch."""
    from p60_activation_patching import logit_difference, patch_stream

    clean, corrupted, answer, foil = jnp.array([3, 1, 4, 1, 5]), jnp.array([3, 2, 4, 6, 5]), jnp.int32(7), jnp.int32(2)
    scores = patch_stream(gpt, clean, corrupted, answer, foil)

    def metric(token_ids):
        return logit_difference(gpt_logits(gpt, token_ids), answer, foil)

    exchanged = [metric(corrupted.at[t].set(clean[t])) for t in range(5)]
    b, c = metric(corrupted), metric(clean)
    np.testing.assert_allclose(scores[0], (jnp.array(exchanged) - b) / (c - b), atol=1e-4)
    assert not scores[0, jnp.array([0, 2, 4])].any()


def test_a_patched_head_adds_its_change_through_its_own_rows(gpt):
    """The score of a head of block 0 is that of the corrupted stream plus what its change writes."""
    from p60_activation_patching import finish, logit_difference, patch_heads, record, rest

    clean, corrupted, answer, foil = jnp.array([3, 1, 4, 1, 5]), jnp.array([3, 2, 4, 6, 5]), jnp.int32(7), jnp.int32(2)
    (start, mixed), (other, theirs) = record(gpt, clean), record(gpt, corrupted)
    b, c = (logit_difference(rest(gpt, x, 0), answer, foil) for x in (other[0], start[0]))
    scores = patch_heads(gpt, clean, corrupted, answer, foil)
    kernel = gpt.blocks[0].attn.out_proj.kernel[...].reshape(3, 4, 12)
    for h in range(3):
        change = (mixed[0] - theirs[0])[:, h] @ kernel[h]
        block = gpt.blocks[0]
        x = other[0] + block.attn.out_proj(theirs[0].reshape(5, 12)) + change
        x = x + block.ff2(jnp.maximum(block.ff1(block.ln2(x)), 0))
        score = (logit_difference(rest(gpt, x, 1), answer, foil) - b) / (c - b)
        np.testing.assert_allclose(scores[0, h], score, atol=1e-4)
    np.testing.assert_allclose(
        rest(gpt, finish(gpt.blocks[1], start[1], mixed[1]), 2), gpt_logits(gpt, clean), atol=1e-5
    )


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


def test_codes_are_the_k_largest_scores_by_hand():
    """In float64 NumPy, token by token: a stable sort of the scores, and the sum of the kept rows."""
    from p62_sparse_autoencoder import autoencode

    rng = np.random.default_rng(0)
    x, encoder, decoder, bias = (
        rng.integers(-2, 3, (9, 4)),
        rng.integers(-1, 2, (4, 7)),
        rng.standard_normal((7, 4)),
        np.ones(4),
    )
    out, codes = autoencode(*(jnp.asarray(each, jnp.float32) for each in (x, encoder, decoder, bias)), 3)
    for token, row, code in zip(x, out, codes, strict=True):
        scores = (token - bias) @ encoder
        kept = [f for f in sorted(range(7), key=lambda f: (-scores[f], f))[:3] if scores[f] > 0]
        assert np.flatnonzero(code).tolist() == sorted(kept)
        np.testing.assert_allclose(row, sum((scores[f] * decoder[f] for f in kept), bias), atol=1e-5)


def test_a_projected_step_changes_lengths_in_the_second_order_only():
    from p62_sparse_autoencoder import project_gradient, unit_rows

    rng = np.random.default_rng(0)
    decoder, gradient = unit_rows(jnp.asarray(rng.standard_normal((6, 5)))), jnp.asarray(rng.standard_normal((6, 5)))
    lengths = [jnp.linalg.norm(decoder + step * project_gradient(decoder, gradient), axis=1) for step in (0.02, 0.01)]
    np.testing.assert_allclose(lengths[0] - 1, 4 * (lengths[1] - 1), rtol=0.01, atol=1e-6)


def test_revived_features_find_the_errors_that_they_were_made_of():
    """The tokens with the largest errors now have a positive score of their own feature, and all others keep theirs."""
    from p62_sparse_autoencoder import revive

    rng = np.random.default_rng(0)
    encoder, decoder, errors = (jnp.asarray(rng.standard_normal(shape)) for shape in ((4, 6), (6, 4), (5, 4)))
    idle = jnp.array([0, 90, 3, 50, 49, 70])
    new_encoder, new_decoder, new_idle = revive(encoder, decoder, idle, errors, 50)
    assert new_idle.tolist() == [0, 0, 3, 0, 49, 0]
    largest = np.argsort(-np.linalg.norm(errors, axis=1))[:3]
    scores = errors[largest] @ new_encoder[:, jnp.array([1, 3, 5])]
    assert (np.argmax(np.asarray(new_decoder)[[1, 3, 5]] @ np.asarray(errors[largest]).T, axis=1) == np.arange(3)).all()
    assert (jnp.diagonal(scores) > 0).all()
    kept = jnp.array([0, 2, 4])
    assert (new_encoder[:, kept] == encoder[:, kept]).all()
    assert (new_decoder[kept] == decoder[kept]).all()


@pytest.mark.oracle
def test_the_lens_is_that_of_the_hidden_states_of_transformers(tmp_path):
    """A GPT-2 of transformers with the same numbers: its head on the states between its blocks."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from p06_mini_gpt import MiniGPT
    from p28_hf_export import export_gpt2
    from p59_logit_lens import logit_lens

    model = MiniGPT(vocab_size=23, d_model=12, num_heads=3, d_ff=20, num_layers=3, max_T=9, rngs=nnx.Rngs(0))
    leaves, structure = jax.tree.flatten(nnx.state(model))
    rng = np.random.default_rng(0)
    nnx.update(
        model,
        jax.tree.unflatten(structure, [leaf + rng.normal(0, 0.4, leaf.shape).astype("float32") for leaf in leaves]),
    )
    export_gpt2(model, 3, str(tmp_path))
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    token_ids = np.array([3, 1, 4, 1, 5])
    with torch.no_grad():
        *states, last = theirs(torch.tensor(token_ids)[None], output_hidden_states=True).hidden_states
        normal = [*(theirs.transformer.ln_f(state) for state in states), last]  # the last one they have normalized
        expected = [theirs.lm_head(state)[0].numpy() for state in normal]
    np.testing.assert_allclose(logit_lens(model, jnp.asarray(token_ids)), expected, rtol=1e-4, atol=1e-4)
