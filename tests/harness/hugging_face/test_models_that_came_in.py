"""A model in Hugging Face's format goes through a run and out again as it came in: parameters, dtypes, and files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tiktoken
from safetensors.flax import load_file, save_file

from harness.config import Config
from harness.data.dialogues import PLAIN_TEMPLATE
from harness.data.tokenizer_json import END_OF_TEXT, to_json
from harness.hugging_face.export import write_model
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from tests.harness.conftest import Harness, byte_tokenizer
from tests.harness.hugging_face.models import LAYOUTS, filled

SPECIAL = [END_OF_TEXT, "<s>", "<|im_start|>", "<|im_end|>", "<pad>"]
CHATML = """\
{{ bos_token }}{% for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""
FEW = ("--steps", 1, "--mesh", "1x1", "--quiet", "--set", "learning_rate=0", "--set", "batch_size=2", "--set",
       "validation_fraction=0.3")  # fmt: skip
SHORT = ("--set", "context=32")  # which a model with learned positions does not take
EIGHT = [
    "GPT-2", "Qwen 3", "Gemma 3",
    *(pytest.param(name, marks=pytest.mark.thorough)
      for name in ("GPT-NeoX, Pythia", "Llama, longer context", "Mistral", "Qwen 2", "OLMo 2",
                   "Qwen 3 with experts", "gpt-oss", "Qwen3-Next")),
]  # fmt: skip


def tokenizer() -> tiktoken.Encoding:
    return byte_tokenizer(SPECIAL)


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def model_folder(name: str, folder: Path, **of_config: Any) -> Path:
    """A folder as of a chat model on the hub: bfloat16, but for one tensor, and with fields that the harness does not
    know."""
    config = replace(LAYOUTS[name], context=64, vocab_size=300)
    folder.mkdir()
    write_model(config, tokenizer(), filled(config), folder, dtype="bfloat16")
    tensors = load_file(folder / "model.safetensors")
    first = min(tensors)
    save_file({**tensors, first: tensors[first].astype(jnp.float16)}, folder / "model.safetensors")
    fields = json.loads((folder / "config.json").read_text())
    others = {"torch_dtype": "bfloat16", "transformers_version": "4.51.0", "initializer_range": 0.02, "use_cache": True}
    ends = {"bos_token_id": 257, "eos_token_id": 259, "pad_token_id": 260}
    del fields["dtype"]
    write(folder / "config.json", {**fields, **others, **ends, **of_config})
    write(folder / "generation_config.json", {**ends, "eos_token_id": [259, 256], "temperature": 0.6, "top_k": 20})
    begin = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
             {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
             "special_tokens": {"<s>": {"id": "<s>", "ids": [257], "tokens": ["<s>"]}}}  # fmt: skip
    write(folder / "tokenizer.json", {**to_json(tokenizer()), "post_processor": begin})
    named = {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>"}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 131072, "chat_template": CHATML}
    write(folder / "tokenizer_config.json", {**named, **kind})
    write(folder / "special_tokens_map.json", {**named, "additional_special_tokens": SPECIAL[2:4]})
    (folder / "vocab.json").write_text("{}")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".safetensors"}


def texts(folder: Path, dialogues: bool = False) -> Path:
    file = folder / "data.jsonl"
    messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "The cat."}]
    record = {"messages": messages} if dialogues else {"text": "The cat saw the moon. " * 9}
    file.write_text("".join(json.dumps(record) + "\n" for _ in range(20)))
    return file


def check_tensors(before: Path, after: Path) -> None:
    expected, stored = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert stored.keys() == expected.keys()
    for name, tensor in expected.items():
        assert stored[name].dtype == tensor.dtype, name
        np.testing.assert_array_equal(stored[name], tensor, err_msg=name)


@pytest.mark.parametrize("name", EIGHT)
def test_texts_change_no_file_of_a_model(name: str, harness_here: Harness, tmp_path: Path) -> None:
    folder = model_folder(name, tmp_path / "in")
    context = () if name == "GPT-2" else SHORT
    result = harness_here("finetune", f"hf:{folder}", "--data", texts(tmp_path), *FEW, *context, "--run", "tuned")
    assert result.code == 0, result.err
    assert harness_here("export", "tuned", "--to", "out").code == 0
    assert files(tmp_path / "out") == files(folder)
    check_tensors(folder, tmp_path / "out")


@pytest.mark.thorough
def test_dialogues_with_adapters_and_a_run_in_between(harness_here: Harness, tmp_path: Path) -> None:
    folder = model_folder("Qwen 3", tmp_path / "in", tie_word_embeddings=True)
    data = texts(tmp_path, dialogues=True)
    for base, run in ((f"hf:{folder}", "first"), ("first", "second")):
        context = SHORT if run == "first" else ()
        result = harness_here("finetune", base, "--chat", data, "--lora", 2, *FEW, *context, "--run", run)
        assert result.code == 0, result.err
    assert harness_here("export", "second", "--to", "out").code == 0
    assert files(tmp_path / "out") == files(folder)
    check_tensors(folder, tmp_path / "out")

    assert harness_here("export", "second", "--to", "wide", "--dtype", "float32").code == 0
    fields = json.loads((tmp_path / "wide" / "config.json").read_text())
    assert (fields["dtype"], "torch_dtype" in fields) == ("float32", False)
    assert {tensor.dtype.name for tensor in load_file(tmp_path / "wide" / "model.safetensors").values()} == {"float32"}


def test_another_template_is_written_with_the_tokens_of_the_model(harness_here: Harness, tmp_path: Path) -> None:
    """And the end of its answers, where the model knows none such, ends what is generated."""
    folder = model_folder("Llama", tmp_path / "in")
    (folder / "generation_config.json").unlink()
    own = tmp_path / "own.jinja"
    own.write_text("{{ bos_token }}" + PLAIN_TEMPLATE.replace("eos_token", "'<|im_start|>'"))
    data = texts(tmp_path, dialogues=True)
    chosen = ("--chat", data, "--template", own, *FEW, *SHORT, "--run", "tuned")
    assert harness_here("finetune", f"hf:{folder}", *chosen).code == 0
    assert harness_here("export", "tuned", "--to", "out").code == 0
    run = Run(tmp_path / "runs" / "tuned")
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    ids = session.prompt_ids("Who?")
    assert session.tokenizer.decode(ids) == "<s>User: Who?\nAssistant:"
    before, after = files(folder), files(tmp_path / "out")
    assert after.pop("chat_template.jinja") == own.read_bytes()
    assert json.loads(after.pop("generation_config.json")) == {"eos_token_id": [258, 259]}
    assert after == before

    assert (
        harness_here(
            "finetune", f"hf:{folder}", "--chat", data, "--template", "plain", *FEW, *SHORT, "--run", "plain"
        ).code
        == 0
    )
    run = Run(tmp_path / "runs" / "plain")
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    assert session.tokenizer.decode([session.end_of_text]) == "<|im_end|>"  # the model's own eos_token


def test_a_folder_that_is_gone_is_said(harness_here: Harness, tmp_path: Path) -> None:
    folder = model_folder("GPT-NeoX", tmp_path / "in")
    result = harness_here("finetune", f"hf:{folder}", "--data", texts(tmp_path), *FEW, *SHORT, "--run", "tuned")
    assert result.code == 0, result.err
    (folder / "config.json").rename(folder / "other.json")
    result = harness_here("export", "tuned", "--to", "out")
    assert (result.code, "The export has none of its files, and is in float32." in result.err) == (0, True)
    fields = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (fields["bos_token_id"], fields["eos_token_id"], fields["dtype"]) == (257, 256, "float32")


def test_a_model_without_a_beginning_has_none(harness_here: Harness, tiny: Config, tmp_path: Path) -> None:
    """Transformers would begin prompts with it, which the model has never seen."""
    config = replace(tiny, steps=3)
    train(open_session(Run(tmp_path / "runs" / "own"), config, None, log=ignore, quiet=True), log=ignore, quiet=True)
    assert harness_here("export", "own", "--to", "out").code == 0
    for name, content in files(tmp_path / "out").items():
        assert b"bos_token" not in content, name


@pytest.mark.oracle
def test_transformers_asks_an_export_as_the_harness_does(harness_here: Harness, tmp_path: Path) -> None:
    """The tokens of a text and of a prompt are those of the folder that came in, in the run and in its export."""
    transformers = pytest.importorskip("transformers")
    folder = model_folder("Gemma 3", tmp_path / "in")
    data = texts(tmp_path, dialogues=True)
    assert harness_here("finetune", f"hf:{folder}", "--chat", data, *FEW, *SHORT, "--run", "tuned").code == 0
    assert harness_here("export", "tuned", "--to", "out").code == 0
    run = Run(tmp_path / "runs" / "tuned")
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    plain = open_session(run, replace(run.config(), chat="", field="text"), None, log=ignore, quiet=True)
    for each in (folder, tmp_path / "out"):
        theirs = transformers.AutoTokenizer.from_pretrained(each)
        asked = theirs.apply_chat_template([{"role": "user", "content": "Who?"}], add_generation_prompt=True)
        assert (asked if isinstance(asked, list) else asked["input_ids"]) == session.prompt_ids("Who?")
        assert theirs("Who?")["input_ids"] == plain.prompt_ids("Who?")
        assert theirs.eos_token == "<|im_end|>"
