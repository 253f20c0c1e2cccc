"""Settings as people type them."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import PRESETS, Config, preset
from harness.errors import UsageError


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_config_and_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    config = replace(preset(name), pieces=("MiniGPT abc",))
    (tmp_path / "config.json").write_text(config.to_json())
    assert Config.load(tmp_path / "config.json") == config


def test_settings_are_parsed_by_their_kind() -> None:
    config = preset("pocket").with_settings(
        {"learning_rate": "2e-4", "fsdp": "true", "steps": "70", "norm": "post", "data": "a.txt"}
    )
    assert (config.learning_rate, config.fsdp, config.steps, config.norm, config.data) == (
        2e-4,
        True,
        70,
        "post",
        "a.txt",
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rat": "1"}, "Did you mean learning_rate"),
        ({"steps": "many"}, "write a whole number"),
        ({"steps": "0"}, "at least 1|fewer than"),
        ({"norm": "mid"}, "choose pre, post or none"),
        ({"tied_head": "perhaps"}, "write true or false"),
        ({"num_heads": "5"}, "num_heads=5 does not divide d_model=128"),
        ({"num_heads": "0"}, "num_heads=0 must be at least 1"),
        ({"grad_accumulation_steps": "0"}, "grad_accumulation_steps=0 must be at least 1"),
        ({"batch_size": "-4"}, "must be at least 1"),
        ({"grad_accumulation_steps": "5"}, "grad_accumulation_steps=5 does not divide batch_size"),
        ({"mesh": "4by2"}, "is no mesh"),
        ({"mesh": "0x2"}, "is no mesh"),
        ({"dropout": "1"}, "less than 1"),
        ({"learning_rate": "nan"}, "learning_rate=nan"),
        ({"warmup_steps": "5000"}, "must be fewer than steps"),
        ({"weight_decay": "-1"}, "not negative"),
        ({"pieces": "x"}, "no setting 'pieces'"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        preset("pocket").with_settings(settings)


def test_an_unknown_preset_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean six-by-192"):
        preset("six-by-129")


def test_differences_name_what_changes_the_numbers_and_not_the_machine() -> None:
    one = preset("pocket")
    other = replace(one, steps=777, mesh="4x2", fsdp=True, remat=True)
    assert one.differences(other) == [f"steps: {one.steps} -> 777"]


@pytest.mark.parametrize("text", ["", "[]", '{"steps": 5}', '{"pieces": [], "no_such": 1}'])
def test_a_file_that_is_no_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match="is not the config of a run"):
        Config.load(tmp_path / "config.json")
