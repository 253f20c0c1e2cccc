"""Problems 53 to 58 against independent oracles."""

import sys

import numpy as np
import pytest

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def test_ids_and_texts_are_those_of_tiktoken():
    """The vocabulary of the harness, and a text of which streams are cut at many places."""
    from p53_encode_decode import decode, encode, encode_stream

    from harness.data.pocket import stories
    from harness.data.tokenizer import get_tokenizer

    tokenizer = get_tokenizer("pocket-2k")
    end = tokenizer.decode([tokenizer.eot_token])
    ranks = {tokenizer.decode_single_token_bytes(i): i for i in range(tokenizer.n_vocab) if i != tokenizer.eot_token}
    special = {end: tokenizer.eot_token}
    code = "  def f(x):\n\n\treturn x==1  # naïve ☂, they'll've 12345 \r\n   "
    text = end.join([*stories(20), code, "", (ROOT / "LICENSE").read_text(encoding="utf-8")])
    ids = tokenizer.encode(text, allowed_special="all")
    assert encode(text, ranks, special) == ids
    assert decode(ids, ranks, special) == text
    data, rng = text.encode(), np.random.default_rng(0)
    ends = np.sort(rng.integers(0, len(data), 3000)).tolist()
    chunks = [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]
    assert list(encode_stream(iter(chunks), ranks, special)) == ids
    some = rng.integers(0, tokenizer.n_vocab, 2000).tolist()  # mostly not UTF-8
    assert decode(some, ranks, special) == tokenizer.decode(some)


def test_rows_of_segments_hold_every_token_once_and_attention_is_that_of_each_story_alone():
    import jax
    from p54_segment_packing import pack_stories, segment_attention, segment_mask, segment_positions, segment_targets

    rng = np.random.default_rng(0)
    stories = [rng.integers(0, 99, n).astype(np.int32) for n in rng.integers(1, 30, 60)]
    token_ids, segment_ids = pack_stories(stories, 32, 0)
    found = [
        tuple(row[segments == number])
        for row, segments in zip(token_ids, segment_ids, strict=True)
        for number in range(1, segments.max() + 1)
    ]
    assert sorted(found) == sorted(map(tuple, stories))
    row, segments = token_ids[0], segment_ids[0]
    q, k, v = rng.standard_normal((3, 32, 4)).astype(np.float32)

    @jax.jit
    def found(row, segments, q, k, v):
        return (segment_positions(segments), segment_targets(row, segments), segment_mask(segments),
                segment_attention(q, k, v, segments, 5))  # fmt: skip

    positions, targets, mask, out = map(np.asarray, found(row, segments, q, k, v))
    ends = np.cumsum(np.bincount(segments, minlength=segments.max() + 1)[1:])
    for a, b in zip([0, *ends], ends, strict=False):
        assert positions[a:b].tolist() == list(range(b - a))
        assert targets[a:b].tolist() == [*row[a + 1 : b], -1]
        assert mask[a:b].sum() == mask[a:b, a:b].sum() == (b - a) * (b - a + 1) // 2
        weights = np.tril(np.exp(q[a:b] @ k[a:b].T / 2))
        np.testing.assert_allclose(out[a:b], weights / weights.sum(1, keepdims=True) @ v[a:b], rtol=1e-4, atol=1e-5)


def test_a_text_is_scored_as_the_formulas_of_lm_eval_do():
    """Its rolling windows, acc and acc_norm, by hand: each target with the tokens that its window has before it."""
    import jax.numpy as jnp
    from p57_evaluation import bits_per_byte, choose_option, perplexity, score_options, score_text

    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 7))
    ids, context = rng.integers(0, 7, 23), 6

    def odds(tokens):
        """The distribution after these tokens, which depends on each of them."""
        scores = sum(table[(3 * token + 5 * age) % 50] for age, token in enumerate(tokens[::-1]))
        return np.exp(scores) / np.exp(scores).sum()

    def model(window):
        return jnp.log(jnp.array([odds(np.asarray(window)[: t + 1].tolist()) for t in range(len(window))])) + 3

    expected = []
    for start in range(0, 22, context):  # windows without overlap, as lm-eval's with context_len = 1
        for target in range(start + 1, min(start + context, 22) + 1):
            expected.append(np.log(odds(ids[start:target].tolist())[ids[target]]))
    found = score_text(model, jnp.array(ids), context, context)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    closest = [np.log(odds(ids[max(0, target - context) : target].tolist())[ids[target]]) for target in range(1, 23)]
    np.testing.assert_allclose(score_text(model, jnp.array(ids), context, 1), closest, rtol=1e-5)
    lengths = rng.integers(1, 5, 7)
    np.testing.assert_allclose(perplexity(found), np.exp(-np.mean(expected)), rtol=1e-5)
    bits = -np.sum(expected) / (np.log(2) * lengths[ids[1:]].sum())
    np.testing.assert_allclose(bits_per_byte(found, jnp.array(ids), jnp.array(lengths)), bits, rtol=1e-5)
    options = [rng.integers(0, 7, n) for n in (1, 2, 4)]
    by_hand = []
    for option in options:
        whole = [*ids[:3].tolist(), *option.tolist()]
        by_hand.append(sum(np.log(odds(whole[max(0, t - context) if t == len(whole) - 1 else 0 : t])[whole[t]])
                           for t in range(3, len(whole))))  # fmt: skip
    scores = score_options(model, jnp.array(ids[:3]), list(map(jnp.array, options)), context)
    np.testing.assert_allclose(scores, by_hand, rtol=1e-5)
    counts = np.array([lengths[option].sum() for option in options])
    assert [int(x) for x in choose_option(scores, jnp.array(counts))] == [
        np.argmax(by_hand),
        np.argmax(by_hand / counts),
    ]


def test_a_law_is_that_of_another_optimizer_and_the_best_allocation_that_of_a_search():
    """SciPy's Nelder-Mead, which knows no gradient, started at the fit, finds no better law. A search over N finds the same N."""
    from p58_scaling_laws import fit_scaling_law, huber_objective, isoflop_minimum, optimal_allocation, predicted_loss
    from scipy.optimize import minimize, minimize_scalar

    rng = np.random.default_rng(3)
    true = np.array([np.log(400), np.log(500), np.log(1.7), 0.34, 0.29])

    def losses_of(law, N, D):
        return np.exp(law[2]) + np.exp(law[0]) / N ** law[3] + np.exp(law[1]) / D ** law[4]

    N = np.repeat(10 ** np.linspace(6, 9, 6), 6)
    D = N * np.tile(10 ** np.linspace(0.3, 2.3, 6), 6)
    losses = losses_of(true, N, D) * np.exp(0.01 * rng.standard_normal(36)) * np.where(np.arange(36) % 12 == 5, 1.3, 1)

    def objective(law):
        distance = np.abs(np.log(losses_of(law, N, D) / losses))
        return np.where(distance < 1e-3, distance**2 / 2, 1e-3 * (distance - 5e-4)).sum()

    law = fit_scaling_law(N, D, losses, 1e-3)
    assert objective(law) <= minimize(objective, law, method="Nelder-Mead").fun * (1 + 1e-6)
    assert objective(law) < objective(true)
    single = [x.astype(np.float32) for x in (law, N, D, losses)]
    np.testing.assert_allclose(
        huber_objective(*single, 0.1), sum_of_huber(losses_of(law, N, D), losses, 0.1), rtol=1e-3
    )
    best, tokens = optimal_allocation(single[0], 1e20)
    search = minimize_scalar(
        lambda x: losses_of(law, np.exp(x), 1e20 / 6 / np.exp(x)), bounds=(5, 40), method="bounded"
    )
    np.testing.assert_allclose(np.log(best), search.x, rtol=1e-4)
    np.testing.assert_allclose(6 * float(best) * float(tokens), 1e20, rtol=1e-4)
    np.testing.assert_allclose(predicted_loss(*single[:3]), losses_of(law, N, D), rtol=1e-4)
    sizes = 10 ** np.linspace(6, 8, 5)
    valley = 3 + 0.2 * (np.log(sizes) - np.log(2.5e7)) ** 2
    np.testing.assert_allclose(isoflop_minimum(sizes.astype(np.float32), valley.astype(np.float32)), 2.5e7, rtol=1e-3)


def sum_of_huber(predicted, losses, delta):
    from scipy.special import huber

    return huber(delta, np.log(predicted / losses)).sum()
