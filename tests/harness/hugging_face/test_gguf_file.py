"""GGUF files, read by llama.cpp's own package; the order of rows is that of its converter."""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from harness.data.dialogues import open_template
from harness.data.tokenizer import get_tokenizer
from harness.errors import UsageError
from harness.hugging_face.export import write_again, write_model
from harness.hugging_face.gguf_file import write_gguf
from harness.hugging_face.load import Parameters
from tests.harness.conftest import Harness
from tests.harness.hugging_face.models import LAYOUTS, exported, filled


def written(name: str, tmp_path: Path, dtype: str = "float32") -> tuple[gguf.GGUFReader, dict[str, np.ndarray]]:
    """A file of a model, and the tensors of the folder that it is made of."""
    tmp_path.mkdir(exist_ok=True)
    exported(LAYOUTS[name], tmp_path / "out")
    (tmp_path / "again").mkdir()
    write_again(tmp_path / "out", tmp_path / "again", dtype)
    write_gguf(tmp_path / "again", tmp_path / "model.gguf")
    return gguf.GGUFReader(tmp_path / "model.gguf"), Parameters(tmp_path / "out").tensors()


def tensors(reader: gguf.GGUFReader) -> dict[str, np.ndarray]:
    """The tensors as float32, with a row for each output."""
    return {each.name: gguf.quants.dequantize(each.data, each.tensor_type) for each in reader.tensors}


def value(reader: gguf.GGUFReader, name: str) -> Any:
    return reader.get_field(name).contents()


@pytest.mark.parametrize("name", ["GPT-2", "GPT-NeoX", "Llama", "Llama, untied, biases", "Mistral", "Qwen 2", "Qwen 3"])
def test_each_layout_has_the_tensors_and_numbers_that_llama_cpp_builds_it_from(name: str, tmp_path: Path) -> None:
    reader, _ = written(name, tmp_path)
    config, kind = LAYOUTS[name], value(reader, "general.architecture")
    arch = next(each for each, named in gguf.MODEL_ARCH_NAMES.items() if named == kind)
    wanted = {gguf.TENSOR_NAMES[each].format(bid=1) for each in gguf.MODEL_TENSORS[arch]}
    names = {each.name.rpartition(".")[0] for each in reader.tensors if not each.name.startswith("blk.0.")}
    assert names <= wanted
    assert ("output" in names) == (not config.tied_head or name == "GPT-NeoX")
    assert value(reader, f"{kind}.embedding_length") == config.d_model
    assert value(reader, f"{kind}.block_count") == config.num_layers
    assert value(reader, f"{kind}.context_length") == (20 if name == "Mistral" else config.context)  # its window
    window = reader.get_field(f"{kind}.attention.sliding_window")
    assert (window.contents() if window else 0) == config.window
    if config.positions == "rope":
        assert value(reader, f"{kind}.attention.head_count_kv") == config.kv_heads
        assert value(reader, f"{kind}.rope.freq_base") == config.rope_base


def test_the_rows_of_a_head_of_llama_alternate_between_its_halves(tmp_path: Path) -> None:
    reader, stored = written("Llama", tmp_path)
    K = LAYOUTS["Llama"].per_head
    for theirs, ours in (("attn_q", "q_proj"), ("attn_k", "k_proj")):
        head, plain = (each[K : 2 * K] for each in (tensors(reader)[f"blk.1.{theirs}.weight"],
                                                    stored[f"model.layers.1.self_attn.{ours}.weight"]))  # fmt: skip
        np.testing.assert_array_equal(head[0::2], plain[: K // 2])
        np.testing.assert_array_equal(head[1::2], plain[K // 2 :])
    np.testing.assert_array_equal(
        tensors(reader)["blk.1.attn_v.weight"], stored["model.layers.1.self_attn.v_proj.weight"]
    )


def test_matrices_of_gpt_2_and_gpt_neox_are_turned(tmp_path: Path) -> None:
    reader, stored = written("GPT-2", tmp_path)
    np.testing.assert_array_equal(tensors(reader)["blk.0.ffn_up.weight"], stored["transformer.h.0.mlp.c_fc.weight"].T)
    reader, stored = written("GPT-NeoX", tmp_path / "neox")
    D, K = LAYOUTS["GPT-NeoX"].d_model, LAYOUTS["GPT-NeoX"].per_head
    own = tensors(reader)["blk.0.attn_qkv.weight"]
    plain = stored["gpt_neox.layers.0.attention.query_key_value.weight"]
    np.testing.assert_array_equal(own[K : 2 * K], plain[3 * K : 4 * K])  # the query of the second head
    np.testing.assert_array_equal(own[D : D + K], plain[K : 2 * K])  # the key of the first one


def test_longer_contexts_have_their_factors(tmp_path: Path) -> None:
    reader, _ = written("Llama, longer context", tmp_path)
    factors = tensors(reader)["rope_freqs.weight"]
    assert factors[0] == 1
    assert factors[-1] == 8
    reader, _ = written("Llama, linear scaling", tmp_path / "linear")
    assert value(reader, "llama.rope.scaling.factor") == 2.5


def test_the_tokenizer_and_the_template_go_along(tmp_path: Path) -> None:
    config, tokenizer = LAYOUTS["Llama"], get_tokenizer("pocket-2k")
    write_model(config, tokenizer, filled(config), tmp_path, open_template("plain", tokenizer))
    write_gguf(tmp_path, tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    tokens = value(reader, "tokenizer.ggml.tokens")
    assert [tokens[number] for number in content["model"]["vocab"].values()] == [*content["model"]["vocab"]]
    assert value(reader, "tokenizer.ggml.merges") == [" ".join(each) if isinstance(each, list) else each
                                                      for each in content["model"]["merges"]]  # fmt: skip
    assert tokens[tokenizer.eot_token] == "<|endoftext|>"
    assert value(reader, "tokenizer.ggml.token_type")[tokenizer.eot_token] == gguf.TokenType.CONTROL
    assert value(reader, "tokenizer.ggml.eos_token_id") == tokenizer.eot_token
    assert value(reader, "tokenizer.ggml.pre") == "gpt-2"
    assert "Assistant" in value(reader, "tokenizer.chat_template")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matrices_may_have_16_bits(dtype: str, tmp_path: Path) -> None:
    reader, stored = written("Llama", tmp_path, dtype)
    kinds = {each.name: each.tensor_type.name for each in reader.tensors}
    assert kinds["blk.0.ffn_up.weight"] == {"float16": "F16", "bfloat16": "BF16"}[dtype]
    assert kinds["blk.0.attn_norm.weight"] == "F32"
    own, plain = tensors(reader)["blk.0.ffn_up.weight"], stored["model.layers.0.mlp.up_proj.weight"]
    np.testing.assert_allclose(own, plain, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Gemma 3", "model_type=gemma3_text cannot be written as GGUF"),
        (
            "GPT-2, exact GELU",
            "activation=gelu_exact cannot be written as GGUF: llama.cpp has no gpt2 with it. "
            "Export to a folder, or train with --set activation=gelu or --preset modern",
        ),
    ],
)
def test_what_is_not_supported_is_said(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        written(name, tmp_path)


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}},
}
BYTE_LEVEL = {"type": "ByteLevel"}


@pytest.mark.parametrize(
    ("processor", "begin"),
    [
        (None, None),
        (BYTE_LEVEL, None),
        (TEMPLATE, 5),
        ({"type": "Sequence", "processors": [BYTE_LEVEL, TEMPLATE]}, 5),
        ({"type": "RobertaProcessing", "cls": ["<s>", 6], "sep": ["</s>", 7]}, 6),
    ],
)
def test_the_token_before_a_text_is_that_of_the_tokenizer(processor: Any, begin: int | None, tmp_path: Path) -> None:
    exported(LAYOUTS["Llama"], tmp_path / "out")
    change(tmp_path / "out" / "tokenizer.json", post_processor=processor)
    write_gguf(tmp_path / "out", tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    assert value(reader, "tokenizer.ggml.add_bos_token") == (begin is not None)
    if begin is not None:
        assert value(reader, "tokenizer.ggml.bos_token_id") == begin


def change(file: Path, **fields: Any) -> None:
    """Replaces fields of a JSON file."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    exported(LAYOUTS["Llama"], tmp_path / "out")
    file = tmp_path / "out" / "tokenizer.json"
    digits = {"type": "Digits", "individual_digits": True}
    pre_tokenizer = json.loads(file.read_text())["pre_tokenizer"]
    change(file, pre_tokenizer={"type": "Sequence", "pretokenizers": [digits, pre_tokenizer]})
    with pytest.raises(UsageError, match=r"tokenizer\.json is of a kind that cannot be written as GGUF"):
        write_gguf(tmp_path / "out", tmp_path / "model.gguf")


def test_the_command_writes_a_file(harness_here: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(LAYOUTS["Llama"], tmp_path / "out")
    run = harness_here("export", f"hf:{tmp_path / 'out'}", "--to", "model.gguf", "--dtype", "float16")
    assert run.code == 0, run.err
    assert gguf.GGUFReader(tmp_path / "model.gguf").tensors
    assert {path.name for path in tmp_path.iterdir()} == {"out", "model.gguf"}
    again = harness_here("export", f"hf:{tmp_path / 'out'}", "--to", "model.gguf")
    assert (again.code, "already exists" in again.err) == (2, True)
    monkeypatch.setitem(sys.modules, "gguf", None)
    missing = harness_here("export", f"hf:{tmp_path / 'out'}", "--to", "other.gguf")
    assert (missing.code, "GGUF needs the package gguf" in missing.err) == (2, True)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "model.gguf"}


def test_a_window_that_llama_cpp_does_not_have_is_said(harness_here: Harness, tmp_path: Path) -> None:
    for name, expected in (("Llama", 0), ("Mistral", 1)):
        exported(LAYOUTS[name], tmp_path / name)
        run = harness_here("export", f"hf:{name}", "--to", f"{name}.gguf")
        assert run.out.count("llama.cpp has no llama with a window. Within the 20 tokens") == expected, run.err
