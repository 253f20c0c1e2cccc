"""Problem 28's layout, read by the real library. Needs torch and transformers, and is skipped without them."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

from tests.conftest import ROOT


@pytest.mark.oracle
def test_transformers_loads_it_with_equal_logits(tmp_path: Path, monkeypatch):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    from p06_mini_gpt import MiniGPT
    from p28_hf_export import export_gpt2

    model = MiniGPT(vocab_size=23, d_model=12, num_heads=3, d_ff=20, num_layers=2, max_T=9, rngs=nnx.Rngs(0))
    leaves, structure = jax.tree.flatten(nnx.state(model))
    rng = np.random.default_rng(0)
    nnx.update(
        model, jax.tree.unflatten(structure, [rng.normal(0, 0.4, x.shape).astype(np.float32) + x for x in leaves])
    )
    export_gpt2(model, 3, str(tmp_path))
    loaded, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    token_ids = np.array([3, 1, 4, 1, 5, 9, 2])
    with torch.no_grad():
        logits = loaded.eval()(torch.tensor(token_ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(logits, model(token_ids), rtol=1e-4, atol=1e-4)
