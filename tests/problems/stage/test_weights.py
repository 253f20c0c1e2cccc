"""Trained weights are those of the record beside them, and fit the references."""

import hashlib
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from problems.stage import model, telling, weights
from problems.stage.weights import FOLDER, POCKET
from tests.conftest import ROOT

MOST_BYTES = 1_500_000


@pytest.mark.parametrize("name", ["pocket", "modern"])
def test_the_record_is_true(name):
    path = FOLDER / f"{name}.safetensors"
    record = json.loads((FOLDER / f"{name}.json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == record["sha256"]
    arrays = load_file(path)
    assert {array.dtype.name for array in arrays.values()} == {"float16"}
    assert sum(array.size for array in arrays.values()) == record["parameters"]
    assert path.stat().st_size < MOST_BYTES
    assert path.stat().st_mode & 0o044 == 0o044


def test_the_reference_has_the_recorded_validation_loss(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "solutions")
    sys.modules.pop("p06_mini_gpt", None)
    from p06_mini_gpt import MiniGPT

    def make():
        from flax import nnx

        return MiniGPT(**POCKET.shape, max_T=POCKET.max_T, rngs=nnx.Rngs(0))

    built = weights.build(make, POCKET.arrays, "MiniGPT")
    assert weights.validation_loss(built) == pytest.approx(POCKET.validation_loss, abs=1e-3)
    ids = weights.encode(weights.PROMPT)
    assert np.allclose(built(ids), model.gpt()(jnp.asarray(ids)), atol=1e-3)


def test_a_story_is_the_one_that_the_harness_samples():
    from harness.model.sampling import CachedDecoder, generate

    gpt = model.gpt()
    told = telling.tell(gpt, 40)
    ids = weights.encode(weights.PROMPT).tolist()
    sampling = telling.Sampling(temperature=telling.DEFAULT.temperature, top_p=telling.DEFAULT.top_p, max_tokens=40)
    assert told.ids[told.given :].tolist() == list(generate(CachedDecoder(gpt, sampling), ids, sampling, weights.END))
