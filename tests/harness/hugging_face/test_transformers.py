"""The real library: it loads what is exported, and what it saves is imported. Skipped without torch and transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.data.pocket import story
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.hugging_face.load import Parameters, read_config
from harness.model.gpt import GPT
from harness.model.sampling import CachedDecoder, Sampling, generate
from harness.model_config import ModelConfig
from tests.harness.hugging_face.models import LAYOUTS, exported

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

POCKET = get_tokenizer("pocket-2k")
STORIES = [f"{story(index)}{END_OF_TEXT}" for index in range(100)]


def logits_of(model: Any, ids: list[int]) -> np.ndarray:
    """The logits of a model of transformers."""
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0].numpy()


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
    ids = loaded.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=50, do_sample=False,
                          pad_token_id=POCKET.eot_token)[0].tolist()  # fmt: skip
    assert [*tokens, POCKET.eot_token][:50] == ids[len(prompt) :]


def saved(folder: Path, model: Any) -> Any:
    """A transformers model with random parameters, saved with its own `save_pretrained`."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
    model.save_pretrained(folder, max_shard_size="20KB")
    return model


_SIZES = dict(max_position_embeddings=32, hidden_size=24, num_hidden_layers=2, intermediate_size=40)
_HEADS = dict(num_attention_heads=6, num_key_value_heads=2)
_ROPE = {"rope_type": "default", "rope_theta": 700.0}
_GEMMA = _SIZES | dict(
    num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8
)


def _layers(number: int, full_every: int) -> list[str]:
    return ["sliding_attention" if (i + 1) % full_every else "full_attention" for i in range(number)]


_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 700.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
MODELS = {
    "gpt2": ("GPT2", dict(n_positions=32, n_embd=24, n_layer=2, n_head=3)),
    "gpt2, exact": ("GPT2", dict(n_positions=32, n_embd=24, n_layer=2, n_head=3, activation_function="gelu")),
    "gpt_neox": (
        "GPTNeoX",
        dict(
            _SIZES, num_attention_heads=3, hidden_act="gelu_pytorch_tanh", use_parallel_residual=False,
            rope_parameters=_ROPE | {"partial_rotary_factor": 1.0},
        ),
    ),
    "pythia": ("GPTNeoX", dict(_SIZES, num_attention_heads=3, rope_parameters=_ROPE | {"partial_rotary_factor": 0.25})),
    "gpt_neox, no biases": ("GPTNeoX", dict(_SIZES, num_attention_heads=3, attention_bias=False)),
    "llama": ("Llama", dict(_SIZES, **_HEADS, rope_parameters=_ROPE)),
    "llama, smollm": ("Llama", dict(_SIZES, **_HEADS, tie_word_embeddings=True)),
    "llama 3": ("Llama", dict(_SIZES, **_HEADS, rope_parameters=_LLAMA3)),
    "llama, wide heads": ("Llama", dict(_SIZES, **_HEADS, head_dim=8, attention_bias=True)),
    "llama, other biases": ("Llama", dict(_SIZES, **_HEADS, mlp_bias=True)),
    "mistral": ("Mistral", dict(_SIZES, **_HEADS, sliding_window=7)),
    "mistral, all": ("Mistral", dict(_SIZES, **_HEADS, sliding_window=None)),
    "qwen 2.5": ("Qwen2", dict(_SIZES, **_HEADS, tie_word_embeddings=True)),
    "qwen 3": ("Qwen3", dict(_SIZES, **_HEADS, head_dim=8)),
    "olmo 2": ("Olmo2", dict(_SIZES, **_HEADS)),
    "gemma 3": ("Gemma3Text", dict(_GEMMA, sliding_window=7, layer_types=_layers(5, 2))),
    "gemma 3, sixth": ("Gemma3Text", dict(_GEMMA | {"num_hidden_layers": 8}, sliding_window=7)),
    "gemma 3, windows": ("Gemma3Text", dict(_GEMMA, sliding_window=7, layer_types=_layers(5, 9))),
    "gemma 3, all": ("Gemma3Text", dict(_GEMMA, layer_types=_layers(5, 1), tie_word_embeddings=False)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_transformers_saved_gives_its_logits(name: str, tmp_path: Path) -> None:
    family, settings = MODELS[name]
    ends = dict(bos_token_id=96, eos_token_id=96, pad_token_id=None)
    config = getattr(transformers, f"{family}Config")(vocab_size=97, **ends, **settings)
    causal = "GPT2LMHeadModel" if family == "GPT2" else f"{family.removesuffix('Text')}ForCausalLM"
    theirs = saved(tmp_path, getattr(transformers, causal)(config))
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    own = GPT(replace(ModelConfig(), **read_config(tmp_path)), nnx.Rngs(0))
    parameters = Parameters(tmp_path)
    take = lambda path, leaf: leaf.replace(jnp.asarray(parameters[".".join(map(str, path))]))  # noqa: E731
    nnx.update(own, nnx.map_state(take, nnx.state(own)))
    ids = jax.random.randint(jax.random.key(0), (32,), 0, 97)
    np.testing.assert_allclose(own(ids), logits_of(theirs, ids.tolist()), atol=1e-4, rtol=0)  # as above
