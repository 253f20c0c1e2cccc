"""YaRN as transformers has it: the frequencies of `_compute_yarn_parameters` of version 5.24 are recorded here."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.hugging_face.load import read_config
from harness.hugging_face.parameters import by_path
from harness.model.general import scaled
from harness.model.gpt import GPT
from harness.model.rope import wavelengths
from harness.model_config import ModelConfig
from tests.harness.hugging_face.models import LAYOUTS, exported, filled

# Fields of rope_parameters; the frequencies of heads of width 24, and what multiplies queries and keys
RECORDED: list[tuple[dict[str, Any], list[float], float]] = [
    (
        {"rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768},
        [1.0, 0.31622776, 0.1, 0.031622779, 0.0099999988, 0.0025693511, 0.00062500004, 0.00013834969, 2.4999996e-05,
         7.9056936e-06, 2.5000006e-06, 7.9056923e-07],
        1.138629436111989,
    ),
    (
        {"rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 16, "beta_slow": 2},
        [1.0, 0.32877919, 0.089768112, 0.0125, 0.0058019855, 0.0026930438, 0.00125, 0.00058019871, 0.00026930429,
         0.00012500001, 5.8019876e-05, 2.6930427e-05],
        1.2079441541679836,
    ),
    (
        {"rope_theta": 500.0, "factor": 2.5, "original_max_position_embeddings": 16, "attention_factor": 1.3},
        [1.0, 0.41704592, 0.14198145, 0.084589705, 0.050396841, 0.030025424, 0.017888544, 0.010657637, 0.0063496036,
         0.0037829662, 0.0022538155, 0.0013427777],
        1.3,
    ),
    (
        {"rope_theta": 1e4, "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0,
         "mscale_all_dim": 0.8},
        [1.0, 0.46415889, 0.21544348, 0.1, 0.0388733, 0.014542436, 0.0051249997, 0.0016245564, 0.00040395648,
         2.4999999e-05, 1.1603976e-05, 5.3860854e-06],
        1.0569662567531275,
    ),
    (
        {"rope_theta": 1e6, "factor": 4.0, "beta_fast": None},  # the old context is then max_position_embeddings, 2048
        [1.0, 0.31622776, 0.1, 0.025693506, 0.0062499992, 0.0013834967, 0.00025000001, 7.9056961e-05, 2.4999996e-05,
         7.9056936e-06, 2.5000006e-06, 7.9056923e-07],
        1.138629436111989,
    ),
]  # fmt: skip


def read(folder: Path, fields: dict[str, Any]) -> ModelConfig:
    """The settings of a Llama whose config.json has these fields."""
    exported(LAYOUTS["Llama"], folder)
    file = folder / "config.json"
    rest = {name: value for name, value in json.loads(file.read_text()).items() if not name.startswith("rope")}
    file.write_text(json.dumps(rest | {"max_position_embeddings": 2048} | fields))
    settings = read_config(folder)
    return ModelConfig(**{name: value for name, value in settings.items() if name != "tokenizer"})


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("fields", "frequencies", "scale"), RECORDED)
def test_frequencies_and_scale(
    fields: dict[str, Any], frequencies: list[float], scale: float, old: bool, tmp_path: Path
) -> None:
    theta = fields["rope_theta"]
    others = {name: value for name, value in fields.items() if name != "rope_theta"}
    given = {"rope_theta": theta, "rope_scaling": {"type": "yarn", **others}} if old else {
        "rope_parameters": {"rope_type": "yarn", **fields}
    }  # fmt: skip
    config = read(tmp_path / "model", given)
    kind, numbers = config.scaling
    assert (kind, numbers[-1]) == ("yarn", scale)
    ours = scaled(wavelengths(24, config.rope_base), kind, numbers, config.rope_base)
    np.testing.assert_allclose(1 / np.asarray(ours), frequencies, rtol=2e-6)  # both sum in float32


def test_queries_and_keys_are_multiplied() -> None:
    """With a factor of 1, the wavelengths stay, and what multiplies both is as if it were in their kernels."""
    config = replace(LAYOUTS["Llama"], rope_scaling="yarn:1:32:1:64:1.5")
    model, plain = filled(config), filled(replace(config, rope_scaling="none"))
    state = nnx.state(plain, nnx.Param)
    kernels = by_path(plain)
    scaled_q, scaled_k = 1.5 * kernels["blocks.attn.q.kernel"], kernels["blocks.attn.kv.kernel"].at[:, :, 0].mul(1.5)
    state["blocks"]["attn"]["q"]["kernel"].set_value(scaled_q)
    state["blocks"]["attn"]["kv"]["kernel"].set_value(scaled_k)
    nnx.update(plain, state)
    ids = jnp.arange(40)
    assert isinstance(model, GPT)
    np.testing.assert_allclose(model(ids), plain(ids), atol=1e-4)


def test_a_ramp_whose_ends_are_not_rounded(tmp_path: Path) -> None:
    """As in gpt-oss: the ends of the ramp are the pairs at which turns and context meet, with their fractions."""
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}
    config = read(tmp_path / "model", {"rope_parameters": rope | {"truncate": False, "beta_fast": 4, "beta_slow": 1}})
    kind, numbers = config.scaling
    first, last = (24 * math.log(64 / (2 * math.pi * turns)) / (2 * math.log(1e4)) for turns in (4, 1))
    slow = np.clip((np.arange(12) - first) / (last - first), 0, 1)
    assert 0 < slow[2] < 1
    expected = 1e4 ** (-np.arange(12) / 12) * (1 - slow + slow / 8)
    np.testing.assert_allclose(1 / np.asarray(scaled(wavelengths(24, 1e4), kind, numbers, 1e4)), expected, rtol=2e-6)
