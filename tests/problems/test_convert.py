"""Problems 41, 42, 45, 46 and 77 against independent programs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def _solutions(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "solutions"))


def test_int8_product_is_exact_and_within_its_bound():
    """NumPy's product in int64, and the error against the kernel that was quantized."""
    from p45_int8_weights import error_bound, int8_matmul, quantize

    rng = np.random.default_rng(0)
    kernel, x = rng.normal(size=(700, 9)).astype(np.float32), rng.normal(size=(6, 700)).astype(np.float32)
    kernel *= np.exp(rng.normal(size=9)).astype(np.float32)
    codes, scale = quantize(jnp.asarray(kernel))
    np.testing.assert_allclose(codes * scale, kernel, atol=float(scale.max()) / 2 * 1.001)
    y = int8_matmul(jnp.asarray(x), codes, scale)
    row_scale = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    sums = np.rint(x / row_scale).astype(np.int64) @ np.asarray(codes, np.int64)
    np.testing.assert_allclose(y, sums * row_scale * np.asarray(scale), rtol=1e-6)
    error, bound = np.abs(np.asarray(y, np.float64) - x.astype(np.float64) @ kernel), error_bound(x, codes, scale)
    assert np.all(error <= bound)
    assert np.all(error < 0.2 * bound)  # errors of both signs cancel


def gptq_of_the_paper(W_FD, X_DN, bits, group):
    """Algorithm 1 of Frantar et al. 2022 without the Cholesky factor: W is (outputs, inputs), and a column that is
    fixed is taken out of the inverse. With the groups, the dead columns and the damping of the authors' program, and a
    scale without offset. Returns the restored weights."""
    F, D = W_FD.shape
    weights, largest = [list(map(float, row)) for row in W_FD], 2 ** (bits - 1) - 1
    hessian = 2 * X_DN @ X_DN.T
    diagonal = [hessian[j, j] for j in range(D)]
    for j in range(D):
        hessian[j, j] += 0.01 * sum(diagonal) / D
        if diagonal[j] == 0:
            for row in weights:
                row[j] = 0.0
    inverse, quantized = np.linalg.inv(hessian), np.zeros((F, D))
    scales = [1.0] * F
    for j in range(D):
        if j % group == 0:
            peaks = [max(abs(number) for number in row[j : j + group]) for row in weights]
            scales = [peak / largest if peak else 1.0 for peak in peaks]
        for i, (row, scale) in enumerate(zip(weights, scales, strict=True)):
            quantized[i, j] = scale * max(-largest, min(largest, round(row[j] / scale)))
            for k in range(j + 1, D):
                row[k] -= (row[j] - quantized[i, j]) / inverse[j, j] * inverse[j, k]
        inverse = inverse - np.outer(inverse[:, j], inverse[j]) / inverse[j, j]
    return quantized


@pytest.mark.parametrize(("bits", "group", "N"), [(4, 8, 40), (3, 5, 6), (2, 30, 40)])
def test_gptq_is_that_of_the_paper(bits: int, group: int, N: int):
    """With a dead feature, a last group that is shorter, and fewer rows than features. The bytes keep the weights, and
    the error of the outputs is under half of that of plain rounding."""
    from p77_gptq import gptq, pack, restore

    rng = np.random.default_rng(bits)
    D, F = 22, 7
    X = rng.standard_normal((N, 4)) @ rng.standard_normal((4, D)) + 0.1 * rng.standard_normal((N, D))
    W = rng.standard_normal((D, F))
    X[:, 9] = 0
    codes, scale = gptq(W, X, bits, group)
    restored = restore(pack(codes), scale, group)
    np.testing.assert_allclose(restored, gptq_of_the_paper(W.T, X.T, bits, group).T, rtol=1e-9, atol=1e-12)
    codes, scale = gptq(W, np.eye(D), bits, group)  # features that do not go together: nothing is corrected
    plain = restore(pack(codes), scale, group)
    assert np.linalg.norm(X @ (W - restored)) < 0.5 * np.linalg.norm(X @ (W - plain))


@pytest.mark.thorough
def test_muon_is_that_of_optax():
    """optax.contrib.muon without Nesterov momentum and with consistent scaling for kernels, AdamW for the rest."""
    from p06_mini_gpt import MiniGPT
    from p46_muon import muon, orthogonalize

    model = MiniGPT(vocab_size=11, d_model=12, num_heads=3, d_ff=20, num_layers=2, max_T=5, rngs=nnx.Rngs(0))
    parameters = nnx.to_pure_dict(nnx.state(model))
    rng = np.random.default_rng(0)
    rest = optax.adamw(0.01, b2=0.95, weight_decay=0.1)
    ours = muon(0.01, 0.9, 0.1, rest)

    def numbers(tree):
        """Which kernels get Muon: None for all other leaves."""
        chosen = optax.contrib.MuonDimensionNumbers()
        return jax.tree_util.tree_map_with_path(lambda path, _: chosen if "kernel" in str(path) else None, tree)

    theirs = optax.contrib.muon(
        0.01, beta=0.9, weight_decay=0.1, nesterov=False, adam_b2=0.95, adam_weight_decay=0.1, consistent_rms=0.2,
        muon_weight_dimension_numbers=numbers,
    )  # fmt: skip
    states = [ours.init(parameters), theirs.init(parameters)]
    steps = [jax.jit(ours.update), jax.jit(theirs.update)]
    for _ in range(3):
        gradients = jax.tree.map(lambda p: rng.normal(size=p.shape).astype(np.float32), parameters)
        updates = []
        for number, step in enumerate(steps):
            move, states[number] = step(gradients, states[number], parameters)
            updates.append(jax.tree.leaves(move))
        for mine, other in zip(*updates, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-3, atol=2e-6)
        parameters = optax.apply_updates(parameters, move)
    values = jnp.linalg.svd(orthogonalize(jnp.asarray(rng.normal(size=(30, 7)), jnp.float32), 5))[1]
    assert jnp.all((values > 0.65) & (values < 1.2))


def test_a_trained_encoding_agrees_with_its_merges_and_round_trips():
    """tiktoken merges by ranks; here the merges are applied one after another. Its own trainer finds the same first
    merges."""
    import regex
    from p42_bpe_training import PATTERN, count_words, make_encoding, train_bpe
    from tiktoken._educational import bpe_train

    text = (ROOT / "LICENSE").read_text(encoding="utf-8")  # it does not change, nor do ties among its pairs
    merges = train_bpe(count_words(text, []), 150)
    encoding = make_encoding(merges, ["<|end|>"])
    ids = encoding.encode(text, allowed_special="all")
    assert encoding.decode(ids) == text
    assert len(ids) < 0.6 * len(text.encode())
    expected: list[int] = []
    for word in regex.findall(PATTERN, text)[:800]:
        tokens = [bytes([byte]) for byte in word.encode()]
        for left, right in merges:
            place = 0
            while place < len(tokens) - 1:
                if (tokens[place], tokens[place + 1]) == (left, right):
                    tokens[place : place + 2] = [left + right]
                place += 1
        expected += [encoding.encode_single_token(token) for token in tokens]
    assert ids[: len(expected)] == expected
    theirs = bpe_train(text, 256 + 12, PATTERN, visualise=None)
    assert [left + right for left, right in merges[:12]] == sorted(theirs, key=theirs.get)[256:]


@pytest.mark.oracle
def test_a_model_of_transformers_is_loaded_with_equal_logits(tmp_path):
    """A GPT-2 with random numbers, saved by transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from p41_load_gpt2 import GPT2, load_gpt2
    from safetensors.numpy import load_file

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=23, n_positions=9, n_embd=12, n_layer=2, n_head=3, n_inner=20)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.4 * torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path)
    model = GPT2(vocab_size=23, d_model=12, num_heads=3, d_ff=20, num_layers=2, max_T=9, rngs=nnx.Rngs(0))
    load_gpt2(load_file(tmp_path / "model.safetensors"), model)
    token_ids = np.array([3, 1, 4, 1, 5, 9, 2])
    with torch.no_grad():
        logits = theirs(torch.tensor(token_ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(logits, model(jnp.asarray(token_ids)), rtol=1e-4, atol=1e-4)
