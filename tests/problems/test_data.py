"""Problems 53 to 58 against independent oracles."""

import sys
import tracemalloc
from itertools import islice

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


def test_a_trained_vocabulary_passes_the_calls_of_a_university_course(tmp_path):
    """Problems 42 and 53 behind the interface of CS336's first assignment: a table of ids, merges, and a file read by
    lines."""
    from p42_bpe_training import count_words, make_encoding, train_bpe
    from p53_encode_decode import decode, encode, encode_stream

    end = "<|endoftext|>"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8") + end + "Zoë's ☂☂ naïve 🙃"
    merges = train_bpe(count_words(text, [end]), 200)
    vocabulary = {byte: bytes([byte]) for byte in range(256)}
    vocabulary |= {256 + number: left + right for number, (left, right) in enumerate(merges)}
    ranks = {token: number for number, token in vocabulary.items()}
    assert not any(b"<|" in token for token in ranks)
    special, twice = {end: 456}, {end: 456, end + end: 457}
    tiktoken = make_encoding(merges, [end])
    for each in ("", "s", "🙃", "Hello, how are you?", "Héllò hôw are ü? 🙃", f"Héllò {end}{end} hôw {end}", text):
        ids = encode(each, ranks, special)
        assert decode(ids, ranks, special) == each
        assert ids == tiktoken.encode(each, allowed_special="all")
    overlapping = f"Hello, how {end}{end} are you?{end}"
    ids = encode(overlapping, ranks, twice)
    assert [token_id for token_id in ids if token_id > 455] == [457, 456]
    assert decode(ids, ranks, twice) == overlapping
    path = tmp_path / "corpus.txt"
    path.write_text(text * 100, encoding="utf-8")
    with path.open("rb") as file:
        tracemalloc.start()
        count = sum(1 for _ in islice(encode_stream(file, ranks, special), 100_000))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 1_000_000 < path.stat().st_size


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


def test_bands_find_what_a_comparison_of_all_pairs_finds_as_often_as_the_formula_says():
    """The similarity by counting, the candidates by comparing all pairs, the clusters by SciPy's connected
    components."""
    from p55_near_duplicates import candidate_pairs, clusters, deduplicate, found_probability, minhash, shingles
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(60)]
    texts = []
    for _ in range(40):
        base = rng.permutation(words)[:30].tolist()
        texts += [" ".join(base[: 30 - cut]) + " " + " ".join(rng.permutation(words)[:cut]) for cut in (0, 3, 8, 14)]
    sets = [shingles(text, 2) for text in texts]
    assert sets[0] == {" ".join(texts[0].split()[i : i + 2]) for i in range(len(texts[0].split()) - 1)}
    P, bands, prime = 2000, 4, 2**31 - 1
    a, b = rng.integers(1, prime, P), rng.integers(0, prime, P)
    signatures = np.stack([minhash(each, a, b) for each in sets])
    pairs = [(i, j) for i in range(len(texts)) for j in range(i + 1, len(texts))]
    exact = np.array([len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in pairs])
    estimate = np.array([(signatures[i] == signatures[j]).mean() for i, j in pairs])
    assert np.abs(exact - estimate).max() < 0.07  # six standard deviations of 2000 draws
    assert np.abs(exact - estimate).mean() < 0.01
    near, found = exact > 0.3, np.zeros(len(pairs))
    few = [pair for pair, chosen in zip(pairs, near, strict=True) if chosen]
    trials = 200
    for trial in range(trials):
        rows = signatures[:, trial * 8 : trial * 8 + 8]
        candidates = candidate_pairs(rows, bands)
        if trial < 3:
            halves = rows.reshape(len(texts), bands, 2)
            assert candidates == {(i, j) for i, j in pairs if (halves[i] == halves[j]).all(axis=1).any()}
        found[near] += [pair in candidates for pair in few]
    expected = found_probability(exact[near], bands, 2)
    assert abs(found[near].mean() / trials - expected.mean()) < 0.02
    edges = [tuple(map(int, each)) for each in np.sort(rng.integers(0, 300, (150, 2))) if each[0] < each[1]]
    left, right = np.array(edges).T
    _, component = connected_components(coo_matrix((np.ones(len(left)), (left, right)), (300, 300)), directed=False)
    assert clusters(edges, 300) == [int(np.flatnonzero(component == each)[0]) for each in component]
    kept = {texts[i] for i in deduplicate(texts, 2, a[:64], b[:64], 32, 0.3)}
    order = rng.permutation(len(texts))
    shuffled = [texts[i] for i in order]
    assert {shuffled[i] for i in deduplicate(shuffled, 2, a[:64], b[:64], 32, 0.3)} == kept
    assert len(kept) < 100


@pytest.mark.oracle
def test_the_texts_that_stay_are_those_by_datasketch():
    """Its own hash functions and tables find the candidates. Needs datasketch, and is skipped without it."""
    datasketch = pytest.importorskip("datasketch")
    from p55_near_duplicates import clusters, deduplicate, shingles

    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(500)]
    texts = []
    for _ in range(60):
        base = rng.permutation(words)[:30].tolist()
        texts += [" ".join([*base[:-cut], *rng.permutation(words)[:cut]]) for cut in (1, 2, 29)]
    texts = [texts[place] for place in rng.permutation(len(texts))]
    sets, lsh, pairs = [shingles(text, 2) for text in texts], datasketch.MinHashLSH(num_perm=128, params=(64, 2)), []
    for place, each in enumerate(sets):
        signature = datasketch.MinHash(num_perm=128)
        signature.update_batch([shingle.encode() for shingle in each])
        found = lsh.query(signature)
        pairs += [(i, place) for i in found if len(sets[i] & each) / len(sets[i] | each) >= 0.5]
        lsh.insert(place, signature)
    labels = clusters(pairs, len(texts))
    assert len(set(labels)) == 120  # two texts of three are alike
    expected = [
        min((i for i in range(len(texts)) if labels[i] == label), key=lambda i: (-len(texts[i]), texts[i], i))
        for label in set(labels)
    ]
    a, b = rng.integers(1, 2**31 - 1, 128), rng.integers(0, 2**31 - 1, 128)
    assert deduplicate(texts, 2, a, b, 64, 0.5) == sorted(expected)


def test_a_filter_is_the_minimum_that_scipy_finds_and_its_threshold_that_of_a_search():
    """Minimization without derivatives, and every possible threshold tried."""
    import hashlib
    import re

    from p56_quality_filter import bucket, choose_threshold, evaluate, features, fit, keep, logistic_loss, train_filter
    from scipy.optimize import minimize

    text = "Click here: click HERE, now."
    words = re.findall("[a-z]+", text.lower())
    grams = [*words, "click here", "here click", "click here", "here now"]
    numbers = [
        int.from_bytes(hashlib.blake2b(g.encode(), digest_size=8, key=(9).to_bytes(8, "little")).digest(), "little")
        % 16
        for g in grams
    ]
    np.testing.assert_allclose(features(text, 16, 9), np.bincount(numbers, minlength=16) / 9)
    assert numbers == [bucket(g, 9, 16) for g in grams]
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((60, 4)), rng.integers(0, 2, 60)

    def loss(theta):
        z = x @ theta[:-1] + theta[-1]
        return np.mean(np.log1p(np.exp(-np.where(labels == 1, z, -z)))) + 0.05 * np.sum(theta[:-1] ** 2)

    weights, bias = fit(x, labels, 0.1)
    tight = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000, "maxfev": 10_000}
    found = minimize(loss, np.zeros(5), method="Nelder-Mead", options=tight)
    np.testing.assert_allclose([*weights, bias], found.x, atol=1e-5)
    single = (each.astype(np.float32) for each in (weights, np.array(bias), x))
    np.testing.assert_allclose(logistic_loss(*single, labels, 0.1), found.fun, rtol=1e-5)
    for recall in (0.2, 0.5, 0.75, 1.0):
        scores = np.round(rng.standard_normal(60), 1)
        possible = [t for t in scores if np.mean(scores[labels == 1] >= t) >= recall]
        threshold = choose_threshold(scores, labels, recall)
        assert threshold == max(possible)
        precision, share = evaluate(scores, labels, threshold)
        assert share == np.mean(scores[labels == 1] >= threshold)
        assert precision == np.mean(labels[scores >= threshold])
    groups = [f"g{number % 20}" for number in range(60)]
    texts = [" ".join(rng.choice(["a", "b", "c", "d"], 6)) + (" good" if label else " bad") for label in labels]
    filtered = train_filter(texts, labels, groups, 32, 3, 0.01, 0.9)
    out = np.array([bucket(group, 3, 4) == 0 for group in groups])
    assert 0 < out.sum() < 60
    changed = np.where(out, labels, 1 - labels)  # other labels of the fit change the weights, others of the rest do not
    assert np.abs(train_filter(texts, changed, groups, 32, 3, 0.01, 0.9)[0] - filtered[0]).max() > 1e-3
    np.testing.assert_array_equal(
        train_filter(texts, np.where(out, 1, labels), groups, 32, 3, 0.01, 0.9)[0], filtered[0]
    )
    assert keep(texts, *filtered, 3)[out & (labels == 1)].mean() >= 0.9


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
    """SciPy's Nelder-Mead, which knows no gradient, started at the fit, finds no better law. A search over N finds the
    same N."""
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
    best, tokens = optimal_allocation(single[0], 1e20, 6.9)
    search = minimize_scalar(
        lambda x: losses_of(law, np.exp(x), 1e20 / 6.9 / np.exp(x)), bounds=(5, 40), method="bounded"
    )
    np.testing.assert_allclose(np.log(best), search.x, rtol=1e-4)
    np.testing.assert_allclose(6.9 * float(best) * float(tokens), 1e20, rtol=1e-4)
    np.testing.assert_allclose(predicted_loss(*single[:3]), losses_of(law, N, D), rtol=1e-4)
    sizes = 10 ** np.linspace(6, 8, 5)
    valley = 3 + 0.2 * (np.log(sizes) - np.log(2.5e7)) ** 2
    np.testing.assert_allclose(isoflop_minimum(sizes.astype(np.float32), valley.astype(np.float32)), 2.5e7, rtol=1e-3)


def sum_of_huber(predicted, losses, delta):
    from scipy.special import huber

    return huber(delta, np.log(predicted / losses)).sum()
