"""The real library: it loads what is exported, and what it saves is imported. Skipped without torch and
transformers."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.data.pocket import story
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.hugging_face.load import Parameters, read_config
from harness.model.general import make_gpt
from harness.model.sampling import CachedDecoder, Sampling, generate
from harness.model_config import ModelConfig
from tests.harness.hugging_face.models import LAYOUTS, exported
from tests.harness.hugging_face.saved import MODELS, logits_of, saved

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

POCKET = get_tokenizer("pocket-2k")
STORIES = [f"{story(index)}{END_OF_TEXT}" for index in range(100)]


@pytest.mark.parametrize("name", LAYOUTS)
def test_transformers_loads_an_export_with_equal_logits_and_ids(name: str, tmp_path: Path) -> None:
    config = LAYOUTS[name]
    model = exported(config, tmp_path / "out")
    loaded, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values()), report
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    own = nnx.jit(lambda model, ids: model(ids))
    for text in STORIES:
        ids = POCKET.encode(text, allowed_special="all")
        assert tokenizer(text) == {"input_ids": ids, "attention_mask": [1] * len(ids)}
        assert tokenizer.decode(ids) == text
        ids = ids[: config.context]
        padded = np.zeros(config.context, np.int32)  # one compilation; no position sees the padding
        padded[: len(ids)] = ids
        # The logits are about 5; both sum in float32, in another order.
        np.testing.assert_allclose(logits_of(loaded, ids), own(model, padded)[: len(ids)], atol=1e-4, rtol=0)

    prompt = POCKET.encode("Once upon a time, there was")
    sampling = Sampling(temperature=0.0, max_tokens=50)
    tokens = list(generate(CachedDecoder(model, sampling), prompt, sampling, POCKET.eot_token))
    ids = loaded.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt)),
        max_new_tokens=50,
        do_sample=False,
        pad_token_id=POCKET.eot_token,
    )[0].tolist()
    assert [*tokens, POCKET.eot_token][:50] == ids[len(prompt) :]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_transformers_saved_gives_its_logits(name: str, tmp_path: Path) -> None:
    theirs = saved(name, tmp_path, vocab_size=97, end=96)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    own = make_gpt(replace(ModelConfig(), **read_config(tmp_path)), nnx.Rngs(0))
    parameters = Parameters(tmp_path)
    take = lambda path, leaf: leaf.replace(jnp.asarray(parameters[".".join(map(str, path))]))  # noqa: E731
    nnx.update(own, nnx.map_state(take, nnx.state(own)))
    ids = jax.random.randint(jax.random.key(0), (32,), 0, 97)
    np.testing.assert_allclose(own(ids), logits_of(theirs, ids.tolist()), atol=1e-4, rtol=0)  # as above
