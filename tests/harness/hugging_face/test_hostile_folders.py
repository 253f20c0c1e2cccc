"""Folders in Hugging Face's format that lie: one sentence, at once, and nothing is read outside of the folder."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.data.dialogues import has_template
from harness.data.tokenizer import get_tokenizer
from harness.errors import UsageError
from harness.hugging_face.load import Parameters, read_config
from tests.harness.conftest import Harness
from tests.harness.hugging_face.models import LAYOUTS, exported

DEEP = "[" * 200_000
SECONDS = 30  # within which any refusal comes, on a busy machine; what is refused here took minutes, or never ended


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model of each layout, by its name."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def folder_of(kept: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies the folder of a model of this layout."""

    def copy(name: str) -> Path:
        if not (kept / name).exists():
            exported(LAYOUTS[name], kept / name)
        return shutil.copytree(kept / name, tmp_path / "model")

    return copy


@pytest.fixture
def folder(folder_of: Callable[[str], Path]) -> Path:
    return folder_of("GPT-2")


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def refusal(folder: Path) -> str:
    """What is said of a folder, which must come soon."""
    began = time.monotonic()

    def read() -> None:
        read_config(folder)
        has_template(folder)

    with pytest.raises(UsageError) as error:
        read()
    assert time.monotonic() - began < SECONDS
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("layout", "fields", "sentence"),
    [
        ("GPT-2", {"n_layer": 10**9}, "1000000000 layers are not supported; at most 10,000 are"),
        ("GPT-2", {"n_layer": 9_999}, "has 9,999 layers: the 28 tensors of its files are too few"),
        ("GPT-2", {"n_layer": 3}, "The tensor transformer.h.2.attn.c_attn.bias is missing"),
        ("GPT-2", {"vocab_size": 10**15}, "vocab_size=1000000000000000 is not supported"),
        ("GPT-2", {"vocab_size": 10**9}, "has 1,000,000,000 tokens: the 28 tensors of its files are too few or too "
            "small"),
        ("GPT-2", {"vocab_size": 2049}, r"wte.weight has shape \(2048, 24\); by config.json it is \(2049, 24\)"),
        ("GPT-2", {"n_embd": 10**9}, "has 1,000,000,000 d_model"),
        ("GPT-2", {"n_positions": 10**9}, "has 1,000,000,000 positions"),
        ("GPT-2", {"n_positions": 257}, r"wpe.weight has shape \(256, 24\); by config.json it is \(257, 24\)"),
        ("GPT-2", {"n_inner": 10**9}, "has 1,000,000,000 d_ff"),
        ("Llama", {"num_hidden_layers": 10**9}, "layers are not supported"),
        ("Llama", {"num_hidden_layers": 1e9}, "num_layers=1000000000.0 is not valid"),
        ("Llama", {"head_dim": 10**9}, "has 6,000,000,000 numbers in its heads"),
        ("Llama", {"num_attention_heads": 10**12}, "num_heads=1000000000000"),
        ("Llama", {"max_position_embeddings": 10**15}, "context=1000000000000000 is not supported"),
        ("Llama", {"rms_norm_eps": "x"}, "norm_epsilon='x' is not valid"),
        ("Mistral", {"sliding_window": 10**15}, "window=1000000000000000 is not supported"),
        ("Gemma 3", {"num_hidden_layers": 10**9, "layer_types": None}, "layers are not supported"),
        ("Gemma 3", {"_sliding_window_pattern": "x", "layer_types": None}, "is not the config of a model"),
    ],
)  # fmt: skip
def test_sizes_are_compared_with_the_tensors(
    folder_of: Callable[[str], Path], layout: str, fields: dict[str, Any], sentence: str
) -> None:
    folder = folder_of(layout)
    change(folder / "config.json", **fields)
    assert re.search(sentence, refusal(folder))


def test_the_command_says_it_in_one_sentence(harness_here: Harness, folder: Path) -> None:
    change(folder / "config.json", n_layer=10**9)
    result = harness_here("sample", f"hf:{folder}", "--prompt", "a")
    assert result.code == 2
    assert "1000000000 layers are not supported" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("config.json", DEEP, "config.json is not valid JSON: it is nested too deeply"),
        ("config.json", f'{{"a": {DEEP}', "nested too deeply"),
        ("config.json", "[1]", "config.json is not a JSON object"),
        ("config.json", "9" * 10_000, "config.json is not valid JSON"),
        ("config.json", '{"vocab_size": ', "config.json is not valid JSON"),
        ("config.json", b"\xff\xfe", "config.json cannot be read: it is not UTF-8 text"),
        ("tokenizer.json", DEEP, "tokenizer.json is not valid JSON: it is nested too deeply"),
        ("tokenizer.json", "[]", "tokenizer.json is not a JSON object"),
        ("tokenizer_config.json", DEEP, "tokenizer_config.json is not valid JSON: it is nested too deeply"),
        ("tokenizer_config.json", '{"chat_template": 3}', "its template and its tokens must be texts"),
        ("tokenizer_config.json", '{"chat_template": [3]}', "is not the config of a tokenizer"),
        ("tokenizer_config.json", '{"bos_token": {"content": 3}}', "its template and its tokens must be texts"),
        ("chat_template.jinja", b"\xff", "chat_template.jinja cannot be read: it is not UTF-8 text"),
    ],
)
def test_malformed_files_are_named(folder: Path, file: str, content: str | bytes, sentence: str) -> None:
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert sentence in refusal(folder)


@pytest.mark.parametrize(
    "file", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_pipes_devices_and_folders_are_not_waited_for(folder: Path, file: str, kind: str) -> None:
    (folder / file).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(folder / file)
    elif kind == "folder":
        (folder / file).mkdir()
    else:
        (folder / file).symlink_to("/dev/zero")
    assert f"{folder / file} is a {kind}" in refusal(folder)


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        ({"x": "../elsewhere.safetensors"}, "names the file '../elsewhere.safetensors', which is not in its folder"),
        ({"x": "/elsewhere.safetensors"}, "names the file '/elsewhere.safetensors'"),
        ({"x": "sub/elsewhere.safetensors"}, "which is not in its folder"),
        ({"x": ".."}, "names the file '..'"),
        ({"x": ""}, "names the file ''"),
        ({"x": "link.safetensors"}, "link.safetensors is a link that leads out of its folder"),
        ({"x": "pipe.safetensors"}, "pipe.safetensors is a pipe"),
        ({"x": "none.safetensors"}, "none.safetensors cannot be read: No such file"),
        ({"x": "a\0b"}, "names the file 'a\\x00b', which is not in its folder"),
        ({"x": "\ud800.safetensors"}, "which is not in its folder"),
        ({"x": 3}, "its weight_map does not name a file for each tensor"),
        (["x"], "its weight_map does not name a file for each tensor"),
        (None, "its weight_map does not name a file for each tensor"),
    ],
)
def test_an_index_names_only_files_of_its_folder(folder: Path, listed: Any, sentence: str) -> None:
    outside = folder.parent / "elsewhere.safetensors"
    (folder / "model.safetensors").rename(outside)
    (folder / "sub").mkdir()
    shutil.copyfile(outside, folder / "sub" / outside.name)
    (folder / "link.safetensors").symlink_to(outside)
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    assert sentence in refusal(folder)


def test_no_file_is_a_link_out_of_the_folder_but_to_the_blobs_of_the_hub_s_cache(folder: Path) -> None:
    outside = folder.parent / "outside.json"
    (folder / "config.json").rename(outside)
    (folder / "config.json").symlink_to(outside)
    assert "config.json is a link that leads out of its folder" in refusal(folder)

    cache = folder.parent / "models--org--name"
    blobs, snapshot = cache / "blobs", cache / "snapshots" / ("a" * 40)
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for file in folder.iterdir():
        shutil.copyfile(file, blobs / f"digest of {file.name}")
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", f"digest of {file.name}"))
    assert read_config(snapshot)["d_model"] == 24
    assert len(dict(Parameters(snapshot))) > 10

    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(Path("..", "..", "..", "outside.json"))
    assert "config.json is a link that leads out of its folder" in refusal(snapshot)
    (blobs / "again").symlink_to(outside)
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(Path("..", "..", "blobs", "again"))
    assert "config.json is a link that leads out of its folder" in refusal(snapshot)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (lambda content: content["added_tokens"][0].update(id=10**15), "the ids of tokens must be whole numbers up to"),
        (lambda content: content["added_tokens"][0].update(id=-1), "the ids of tokens must be whole numbers up to"),
        (
            lambda content: content["model"]["vocab"].update(a=10**15),
            "merges tokens in another order|whole numbers up to",
        ),
        (lambda content: content["added_tokens"][0].update(id=5), "two tokens have the same id"),
    ],
)
def test_ids_that_no_vocabulary_has_are_refused(
    folder: Path, changed: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    changed(content)
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=sentence):
        get_tokenizer(f"hf:{folder}")


def test_a_vocabulary_with_an_endless_token_is_not_searched_for_its_merges(folder: Path) -> None:
    """The search takes the square of a token's length. The package `tokenizers` reads such a file, if it is
    installed."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["vocab"]["a" * 200_000] = len(content["model"]["vocab"])
    file.write_text(json.dumps(content))
    began = time.monotonic()
    try:
        get_tokenizer(f"hf:{folder}")
    except UsageError as error:
        assert "has a token of more than 1024 bytes" in str(error)  # noqa: PT017 - only without the package
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize("shape", [(), (0, 24), (3,), (2048, 24, 1)])
def test_an_embedding_and_a_head_of_odd_shapes_are_compared_with_the_config(
    folder: Path, shape: tuple[int, ...]
) -> None:
    file = folder / "model.safetensors"
    odd = np.zeros(shape, np.float32)
    save_file({**load_file(file), "transformer.wte.weight": odd, "lm_head.weight": odd}, file)
    assert "does not fit its config.json" in refusal(folder)
