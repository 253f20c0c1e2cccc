"""The table of peak rates, and the FLOPs per token."""

import math
from dataclasses import replace
from pathlib import Path

import jax
import psutil
import pytest
from flax import nnx

from harness.model.general import make_gpt
from harness.model_config import ModelConfig
from harness.run.hardware import (
    PEAK_FLOPS,
    described_devices,
    flops_per_token,
    listed_flops,
    memory_bytes,
    utilization,
)
from tests.harness.model.test_gpt import VARIANTS

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("device_kind", "name"),
    [
        ("NVIDIA L4", "L4"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H200", "H200"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("TPU v5 lite", "v5 lite"),
        ("TPU v5", "v5"),
        ("TPU v5p", "v5p"),
    ],
)
def test_the_longest_name_that_matches_whole_words_applies(device_kind: str, name: str) -> None:
    assert listed_flops(device_kind) == PEAK_FLOPS[name]


@pytest.mark.parametrize(
    ("device_kind", "rate"),
    [("NVIDIA H100 80GB HBM3", 494.5e12), ("Tesla V100-SXM2-16GB", 15.7e12), ("TPU v5p", 459e12), ("cpu", None)],
)
def test_float32_has_a_rate_of_its_own(device_kind: str, rate: float | None) -> None:
    assert listed_flops(device_kind, "float32") == rate


@pytest.mark.parametrize("device_kind", ["cpu", "NVIDIA L400", "NVIDIA A1000", "NVIDIA T400"])
def test_other_devices_are_not_in_the_table(device_kind: str) -> None:
    assert listed_flops(device_kind) is None


@pytest.mark.parametrize(
    ("name", "mixing"),
    [
        ("pre, learned, tied", 4 * (13 / 2) * 2 * 8),
        ("latent attention", 2 * 9 * (1 - 9 / 26) * 4 * (2 * 4 + 6)),  # a window of 9 of 13 positions
        ("state space", 6 * 16 * 3),
        ("state space and attention", 6 * 16 * 3 + 4 * (13 / 2) * 2 * 8),  # two layers of each
    ],
)
def test_flops_count_the_kernels_of_a_mixer_and_what_it_does_without_them(name: str, mixing: float) -> None:
    config = VARIANTS[name]
    blocks = nnx.state(nnx.eval_shape(lambda: make_gpt(config, nnx.Rngs(0)).blocks))
    leaves = jax.tree_util.tree_leaves_with_path(blocks)
    kernels = sum(math.prod(leaf.shape) for path, leaf in leaves if "kernel" in str(path))  # of both layers
    flops = flops_per_token(config.model) - flops_per_token(replace(config, num_layers=0).model)
    assert flops == pytest.approx(6 * kernels + 3 * 2 * mixing)


def test_flops_count_the_gate_and_the_shared_heads() -> None:
    config = ModelConfig(vocab_size=100, context=10, d_model=8, num_heads=4, d_ff=16, num_layers=1)
    flops = flops_per_token(config)
    assert flops == 6 * (4 * 8 * 8 + 2 * 8 * 16 + 100 * 8) + 3 * 2 * 10 * 8
    assert flops_per_token(replace(config, activation="swiglu")) == flops + 6 * 8 * 16
    assert flops_per_token(replace(config, num_kv_heads=1)) == flops - 6 * 2 * 8 * (8 - 2)


def test_flops_count_the_experts_that_a_token_uses() -> None:
    config = ModelConfig(vocab_size=100, context=10, d_model=8, num_heads=4, d_ff=16, num_layers=1, activation="swiglu")
    experts = replace(config, experts=5, experts_per_token=2, d_shared=6)
    assert flops_per_token(experts) - flops_per_token(config) == 6 * (8 * 5 + 3 * 8 * (16 + 6))


def test_the_memory_of_a_process_is_its_peak_in_bytes() -> None:
    """On a CPU, whose devices report none."""
    assert 0.9 * psutil.Process().memory_info().rss < memory_bytes() < psutil.virtual_memory().total


def test_where_the_peak_rate_is_unknown_so_is_the_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    assert utilization(1e9, "float32", 1) is None
    monkeypatch.setattr("harness.run.hardware.peak_flops", lambda dtype: 1e12)
    assert utilization(1e12, "bfloat16", 4) == 0.25


def test_the_first_line_names_the_devices_and_a_gpu_that_jax_leaves_unused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr("harness.run.hardware.NVIDIA_DRIVER", tmp_path / "version")
    assert described_devices() == "JAX has 8 devices: cpu."
    (tmp_path / "version").write_text("NVRM version: 580.65\n")
    said = described_devices()
    assert said.startswith("JAX has 8 devices: cpu. This machine has a GPU of NVIDIA, which this JAX cannot use: run `")
    assert f"jax[cuda12]=={jax.__version__}" in said
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # as the user wishes
    assert described_devices() == "JAX has 8 devices: cpu."
