"""What training takes, by calculation, beside what XLA takes."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.presets import preset
from harness.run.estimate import advice, estimate, on_each, with_vocabulary
from harness.run.hardware import MEMORY_GB, PEAK_FLOPS, Device, device_named
from harness.training.sharding import make_mesh
from harness.training.train_step import default_recipe, make_step_functions
from tests.harness.conftest import TINY, Harness

CPU = Device("cpu", 1e11, 0, 8 * 10**9, is_listed=False)
ON_ONE = {"mesh": "1x1"}


def taken(config: Config) -> int:
    """The bytes of everything but the state that XLA takes on this CPU."""
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, default_recipe(config, mesh))
    rows = jax.ShapeDtypeStruct((config.batch_size, config.context + 1), np.int32)
    with jax.set_mesh(mesh):
        compiled = functions.train_step.lower(functions.abstract_state, rows).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


@pytest.mark.parametrize(
    ("name", "settings"), [("pocket", {}), ("pocket", {"batch_size": 32, "remat": True}), ("modern", {})]
)
def test_the_estimate_is_near_what_xla_takes(name: str, settings: dict[str, object]) -> None:
    config = replace(with_vocabulary(preset(name)), **ON_ONE, **settings)  # type: ignore[arg-type]
    memory = estimate(config, CPU).memory
    estimated = sum(size for part, size in memory.items() if part not in ("parameters, float32", "optimizer state"))
    assert estimated == pytest.approx(taken(config), rel=0.25)


def test_a_mesh_with_fsdp_divides_what_a_device_holds() -> None:
    config = replace(TINY, **ON_ONE)  # type: ignore[arg-type]
    number, parameters, gradients, moments = on_each(config)
    assert (parameters, gradients, moments) == (4 * number, 4 * number, 8 * number)
    _, *each = on_each(replace(config, mesh="2x1", fsdp=True))
    assert all(part < 0.6 * whole for part, whole in zip(each, (parameters, gradients, moments), strict=True))
    assert estimate(replace(config, mesh="2x1", fsdp=True), CPU).sent["data"][0] > 0
    assert estimate(config, CPU).sent == {}


def test_adapters_have_moments_of_their_own_alone() -> None:
    config = replace(TINY, **ON_ONE, base="other", lora_rank=2)  # type: ignore[arg-type]
    _, parameters, gradients, moments = on_each(config)
    assert moments == 2 * gradients
    assert gradients < parameters / 3


@pytest.mark.parametrize("rank", [0, 2])
def test_a_pair_is_two_rows_that_the_base_reads_too(rank: int) -> None:
    """The base has its own copy of what is trained: of all parameters, or of adapters."""
    rows = replace(TINY, **ON_ONE, base="other", lora_rank=rank, packing="padded", chat="plain")  # type: ignore[arg-type]
    pairs = replace(rows, field="pairs", dropout=0.0)
    of_rows, of_pairs = estimate(rows, CPU), estimate(pairs, CPU)
    assert of_pairs.tokens == 2 * of_rows.tokens
    assert of_pairs.flops == pytest.approx(2 * 4 / 3 * of_rows.flops)
    assert of_pairs.memory["base, of what is trained"] == on_each(rows)[2]
    doubled = estimate(replace(rows, batch_size=2 * rows.batch_size), CPU)
    assert of_pairs.total == doubled.total + on_each(rows)[2]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, ""),
        ({"batch_size": 512}, "--set grad_accumulation_steps="),
        ({"d_model": 5120, "d_ff": 16384, "num_layers": 48}, "--set remat=true"),
    ],
)
def test_what_does_not_fit_comes_with_what_to_change(settings: dict[str, int], sentence: str) -> None:
    config = replace(with_vocabulary(preset("gpu-10m")), **ON_ONE, **settings)  # type: ignore[arg-type]
    found = estimate(config, device_named("T4", "bfloat16"))
    said = advice(found)
    assert said.startswith("This does not fit") == bool(sentence)
    assert sentence in said
    if "grad_accumulation_steps=" in said:
        parts = int(said.partition("grad_accumulation_steps=")[2].split()[0])
        assert advice(estimate(replace(config, grad_accumulation_steps=parts), found.device)) == ""


@pytest.mark.parametrize(("name", "millions"), [("gpu-10m", 10), ("gpu-30m", 30), ("gpu-70m", 70)])
def test_presets_for_one_gpu_have_the_size_and_the_tokens_that_their_names_say(name: str, millions: int) -> None:
    """And fit a card of 16 GB."""
    config = replace(with_vocabulary(preset(name)), **ON_ONE)  # type: ignore[arg-type]
    found = estimate(config, device_named("T4", "bfloat16"))
    assert found.parameters / 1e6 == pytest.approx(millions, rel=0.02)
    assert config.steps * found.tokens == pytest.approx(20 * found.parameters, rel=0.02)
    assert advice(found) == ""


def test_every_device_with_a_rate_has_a_memory() -> None:
    assert {*MEMORY_GB} == {*PEAK_FLOPS}
    with pytest.raises(UsageError, match="--device H10 is not known; it could be H100 or A10"):
        device_named("H10", "bfloat16")


def test_the_command_needs_no_data(harness: Harness) -> None:
    done = harness("profile", "--preset", "gpt2-small", "--estimate", "--device", "H100", "--set", "mesh=4x2")
    assert done.code == 0, done.err
    assert done.out.startswith("gpt2-small: 32,768 tokens in a step, on 8 devices (H100)\n")
    assert "20,000 steps" in done.out
    here = harness("profile", "--estimate", "--json")
    assert here.code == 0, here.err
    found = json.loads(here.out)
    assert (found["parameters"], found["device"]["is_listed"]) == (658_944, False)
    refused = harness("profile", "--device", "H100")
    assert (refused.code, "--device needs --estimate" in refused.err) == (2, True)
