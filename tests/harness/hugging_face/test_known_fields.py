"""Each field of a folder is read, refused, or known not to matter."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.data.known_fields import unknown_fields
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import to_json
from harness.errors import UsageError
from harness.hugging_face.layouts import LAYOUTS as EVERY
from harness.hugging_face.load import read_config
from tests.harness.hugging_face.models import LAYOUTS, exported

Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder of a model of this layout. Tests change its config.json alone."""
    made: dict[str, tuple[Path, str]] = {}

    def of(name: str) -> Path:
        if name not in made:
            path = tmp_path_factory.mktemp("models") / name
            exported(LAYOUTS[name], path)
            made[name] = (path, (path / "config.json").read_text())
        path, config = made[name]
        (path / "config.json").write_text(config)
        return path

    return of


def change(file: Path, fields: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


# What other models of these kinds, and changed copies of them, compute in another way
MATTER: list[tuple[str, dict[str, Any]]] = [
    ("GPT-2", {"scale_attn_by_inverse_layer_idx": True}),
    ("GPT-2", {"add_cross_attention": True}),
    ("GPT-2", {"is_encoder_decoder": True}),
    ("GPT-2", {"pruned_heads": {"0": [1]}}),
    ("GPT-2", {"rotary_pct": 0.5}),
    ("GPT-2", {"multi_query": True}),
    ("GPT-NeoX", {"head_dim": 8}),
    ("Llama", {"residual_multiplier": 0.22}),
    ("Llama", {"attention_multiplier": 0.015625}),
    ("Llama", {"embedding_multiplier": 12.0}),
    ("Llama", {"logits_scaling": 8.0}),
    ("Llama", {"scale_emb": 12}),
    ("Llama", {"no_rope_layers": [1, 0]}),
    ("Llama", {"rope_interleaved": True}),
    ("Llama", {"rotary_pct": 0.5}),
    ("Llama", {"num_local_experts": 8}),
    ("Llama", {"qk_layernorm": True}),
    ("Llama", {"use_sliding_window": True}),
    ("Llama", {"quantization_config": {"bits": 4}}),
    ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "attention_factor": 1.2}}),
    ("Llama", {"rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]}, "rope_parameters": None}),
    ("Mistral", {"attn_logit_softcapping": 30.0}),
    ("Qwen 2", {"use_mrope": True}),
    ("Qwen 2", {"use_sliding_window": True}),
    ("Qwen 3", {"decoder_sparse_step": 1}),
    ("OLMo 2", {"clip_qkv": 8.0}),
    ("Gemma 3", {"final_logit_softcapping": 30.0}),
    ("Gemma 3", {"altup_num_inputs": 4}),
]


@pytest.mark.parametrize(("name", "fields"), MATTER)
def test_a_field_that_matters_is_refused(name: str, fields: dict[str, Any], folder: Folder) -> None:
    path = folder(name)
    change(path / "config.json", fields)
    with pytest.raises(UsageError, match=r"may change what the model computes|(is|are) not supported"):
        read_config(path)


# As in the folders of SmolLM2, Qwen 2.5, Pythia, TinyLlama, Gemma 3 and models tuned by other programs
HARMLESS = {
    "_name_or_path": "x", "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": True,
    "pretraining_tp": 1, "rope_interleaved": False, "use_mrope": False, "is_llama_config": True, "pruned_heads": {},
    "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "unsloth_fixed": True, "other": None,
    "attention_dropout": 0.1, "initializer_range": 0.041, "pad_token_id": 0, "eos_token_id": [1, 2],
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "GPT-2", "GPT-NeoX", "Llama", "Mistral", "Qwen 2", "Qwen 3", "OLMo 2", "Gemma 3", "Qwen 3 with experts",
        "gpt-oss", "Qwen3-Next",
    ],
)  # fmt: skip
def test_a_field_that_does_not_matter_changes_nothing(name: str, folder: Folder) -> None:
    path = folder(name)
    before = read_config(path)
    change(path / "config.json", HARMLESS)
    assert read_config(path) == before


def test_a_window_that_no_field_names_is_that_of_transformers(folder: Folder) -> None:
    path = folder("Mistral")
    fields = json.loads((path / "config.json").read_text())
    for given, window in (({}, 4096), ({"sliding_window": None}, 0)):
        (path / "config.json").write_text(
            json.dumps({name: value for name, value in fields.items() if name != "sliding_window"} | given)
        )
        assert read_config(path).get("window") == window


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("", {"stages": [1]}),
        ("model", {"dropout": 0.1}),
        ("model", {"end_of_word_suffix": "</w>"}),
        ("model", {"continuing_subword_prefix": "##"}),
        ("added_tokens", {"lstrip": True}),
        ("added_tokens", {"single_word": True}),
    ],
)
def test_a_tokenizer_that_does_more_is_not_read_as_bytes_alone(
    part: str, fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package `tokenizers` does what its fields say."""
    content = to_json(get_tokenizer("pocket-2k"))
    (content["added_tokens"][0] if part == "added_tokens" else content[part] if part else content).update(fields)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=f"has the field {next(iter(fields))}, which needs the package"):
        get_tokenizer(f"hf:{tmp_path}")


def test_a_tokenizer_whose_ids_are_random_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    content = to_json(get_tokenizer("pocket-2k"))
    content["model"]["dropout"] = 0.1
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="is not supported: it splits words at random"):
        get_tokenizer(f"hf:{tmp_path}")


@pytest.mark.oracle
@pytest.mark.parametrize("layout", EVERY, ids=lambda layout: layout.model_type)
def test_the_fields_that_transformers_writes_are_known(layout: Any) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[layout.model_type]()
    assert unknown_fields(config.to_dict(), "config.json", layout.model_type) == []


def test_a_head_that_is_missing_may_be_the_embedding(folder: Folder) -> None:
    path = folder("Qwen 3")
    change(path / "config.json", {"tie_word_embeddings": False})
    with pytest.raises(UsageError, match=r"lm_head.weight is missing in .* set tie_word_embeddings to true"):
        read_config(path)
