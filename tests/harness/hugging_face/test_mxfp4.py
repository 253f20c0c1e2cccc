"""The experts of gpt-oss as its files have them, in blocks of four bits."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.errors import UsageError
from harness.hugging_face.export import write_again
from harness.hugging_face.load import Parameters, read_config
from harness.hugging_face.mxfp4 import decoded
from tests.harness.hugging_face.models import LAYOUTS, exported

CONFIG = replace(LAYOUTS["gpt-oss"], num_layers=1, full_every=0, d_model=64, d_ff=32)


def some_blocks(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks and scales of an array (E, in, out)."""
    experts, inputs, outputs = shape
    blocks = rng.integers(0, 256, (experts, outputs, inputs // 32, 16), np.uint8)
    return blocks, rng.integers(118, 125, blocks.shape[:-1], np.uint8)


def in_blocks(folder: Path) -> dict[str, np.ndarray]:
    """Replaces the experts of a folder by random blocks. Returns their numbers by `ml_dtypes`."""
    tensors, numbers, rng = load_file(folder / "model.safetensors"), {}, np.random.default_rng(0)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        blocks, scales = some_blocks(rng, tensors.pop(name).shape)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        codes = np.stack([blocks & 15, blocks >> 4], -1).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
        values = (
            codes.reshape(*blocks.shape[:-1], 32) * scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)[..., None]
        )
        numbers[name] = values.reshape(*blocks.shape[:2], -1).swapaxes(1, 2)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    fields = json.loads((folder / "config.json").read_text())
    fields["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(fields))
    return numbers


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("models") / "oss"
    exported(CONFIG, folder)
    return folder, in_blocks(folder)


def test_a_folder_gives_the_numbers_of_its_blocks(quantized: tuple[Path, dict[str, np.ndarray]]) -> None:
    folder, numbers = quantized
    assert read_config(folder)["experts"] == 5
    tensors = Parameters(folder).tensors()
    assert len(numbers) == 2
    for name, expected in numbers.items():
        np.testing.assert_array_equal(tensors[name], expected)
    name = next(name for name in numbers if name.endswith("down_proj"))
    np.testing.assert_array_equal(Parameters(folder)["blocks.feed_forward_override.down.kernel"][0], numbers[name])


def test_an_export_has_whole_numbers_in_bfloat16_and_says_nothing_of_blocks(
    quantized: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    folder, numbers = quantized
    write_again(folder, tmp_path)
    assert "quantization_config" not in json.loads((tmp_path / "config.json").read_text())
    again = Parameters(tmp_path)
    assert {again.dtypes[name] for name in numbers} == {"bfloat16"}
    for name, expected in numbers.items():  # four bits and a power of two are exact in bfloat16
        np.testing.assert_array_equal(again.tensors()[name], expected)


def test_blocks_and_scales_that_do_not_fit_are_refused(
    quantized: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    shutil.copytree(quantized[0], tmp_path / "odd")
    file = tmp_path / "odd" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("down_proj_scales"))
    save_file(tensors | {name: tensors[name][:, 1:]}, file)
    with pytest.raises(UsageError, match=r"down_proj_blocks in .* which are no blocks of MXFP4"):
        read_config(tmp_path / "odd")


@pytest.mark.oracle
def test_the_numbers_are_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.integrations.mxfp4")
    blocks, scales = some_blocks(np.random.default_rng(1), (3, 64, 10))
    expected = theirs.convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32)
    np.testing.assert_array_equal(decoded(blocks, scales), expected.numpy())
