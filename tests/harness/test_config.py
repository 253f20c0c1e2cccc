"""Settings from the command line and from config.json."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.aliases import RENAMED
from harness.config import PARTS, Config
from harness.errors import UsageError
from harness.presets import PRESETS, preset
from harness.settings import describe

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_a_file(name: str, tmp_path: Path) -> None:
    config = replace(preset(name), pieces=("MiniGPT abc",))
    (tmp_path / "config.json").write_text(config.to_json())
    assert Config.load(tmp_path / "config.json") == config


def test_settings_are_parsed_by_their_type() -> None:
    config = preset("pocket").with_settings(
        {"learning_rate": "2e-4", "fsdp": "true", "steps": "70", "norm": "post", "data": "a.txt"}
    )
    values = (config.learning_rate, config.fsdp, config.steps, config.norm, config.data)
    assert values == (2e-4, True, 70, "post", "a.txt")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rat": "1"}, "Did you mean learning_rate"),
        ({"lr": "1"}, "Did you mean learning_rate"),
        ({"zzzzzz": "1"}, "`harness settings` lists them"),
        ({"steps": "many"}, "write a whole number"),
        ({"steps": "0"}, "steps=0 is not valid; it must be at least 1"),
        ({"norm": "mid"}, "choose pre, post, branch, both or none"),
        ({"tied_head": "perhaps"}, "write true or false"),
        ({"num_heads": "5"}, "num_heads=5 does not divide d_model=128"),
        ({"num_heads": "6", "d_model": "48", "num_kv_heads": "4"}, "num_kv_heads=4 does not divide num_heads=6"),
        ({"num_heads": "0"}, "num_heads=0 is not valid; it must be at least 1"),
        ({"grad_accumulation_steps": "0"}, "grad_accumulation_steps=0 is not valid; it must be at least 1"),
        ({"batch_size": "-4"}, "must be at least 1"),
        ({"grad_accumulation_steps": "5"}, "grad_accumulation_steps=5 does not divide batch_size"),
        ({"mesh": "4by2"}, "mesh=4by2 is not valid; write DATAxMODEL, such as 4x2"),
        ({"mesh": "2x2x2x2"}, "mesh=2x2x2x2 is not valid"),
        ({"mesh": "0x2"}, "mesh=0x2 is not valid"),
        ({"dropout": "1"}, "at least 0 and less than 1"),
        ({"learning_rate": "nan"}, "learning_rate=nan is not valid"),
        ({"learning_rate": "inf"}, "learning_rate=inf is not valid"),
        ({"warmup_steps": "5000"}, "warmup_steps=5000 is not valid; it must be less than steps=2400"),
        (
            {"lora_rank": "2", "base": "run", "optimizer": "muon"},
            "optimizer=muon is not valid with lora_rank, because adapters have no kernels; use optimizer=adamw",
        ),
        ({"weight_decay": "-1"}, "weight_decay=-1.0 is not valid; it must be at least 0"),
        (
            {"cache_blocks": "12"},
            "cache_blocks=12 is not valid; a text of context=192 needs 13 blocks of cache_block_size=16",
        ),
        (
            {"cache_blocks": "99", "mixer": "state_space", "positions": "none"},
            "mixer=state_space has no keys and values that blocks could hold; --set cache_blocks=0",
        ),
        ({"validation_fraction": "1"}, "more than 0 and less than 1"),
        ({"seed": "-1"}, "seed=-1 is not valid; it must be at least 0 and less than 4,294,967,296"),
        ({"pieces": "x"}, "no setting 'pieces'"),
    ],
)
def test_a_bad_setting_is_a_usage_error(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        preset("pocket").with_settings(settings)


@pytest.mark.parametrize(
    ("typed", "warmup"),
    [({"steps": "20"}, 10), ({"steps": "1"}, 0), ({"steps": "90000"}, None), ({"steps": "20", "warmup_steps": "3"}, 3)],
)
def test_few_steps_shorten_the_warm_up_to_half_of_them_and_many_leave_it(
    typed: dict[str, str], warmup: int | None
) -> None:
    config = preset("pocket").with_options(typed)
    assert config.steps == int(typed["steps"])
    assert config.warmup_steps == (preset("pocket").warmup_steps if warmup is None else warmup)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean six-by-192"):
        preset("six-by-129")


def test_differences_list_what_changes_the_result_but_not_machine_settings() -> None:
    config = preset("pocket")
    other = replace(config, steps=777, mesh="4x2", fsdp=True, remat=True)
    assert config.differences(other) == [f"steps: {config.steps} -> 777"]


@pytest.mark.parametrize("text", ["", "[]", '{"steps": 5}', '{"pieces": [], "no_such": 1}'])
def test_a_file_that_is_not_a_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match="is not the config of a run"):
        Config.load(tmp_path / "config.json")


OLD = {"form": "padded", "task": "same", "validation": 0.1, "accumulate": 4, "final_learning_rate": 0.2}


def test_a_file_with_former_names_and_values_still_loads(tmp_path: Path) -> None:
    assert set(OLD) == set(RENAMED)
    settings = {**json.loads(preset("a-to-a").to_json()), **OLD}
    for name, _ in RENAMED.values():
        del settings[name]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    wanted = replace(
        preset("a-to-a"), packing="padded", objective="copy", validation_fraction=0.1, grad_accumulation_steps=4,
        final_lr_fraction=0.2,
    )  # fmt: skip
    assert Config.load(tmp_path / "config.json") == wanted


def test_a_file_with_the_tracker_of_0_3_0_still_loads(tmp_path: Path) -> None:
    settings = {**json.loads(preset("a-to-a").to_json()), "log": "csv,tensorboard"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert Config.load(tmp_path / "config.json") == replace(preset("a-to-a"), log="tensorboard")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accumulate": "2"}, "accumulate has been renamed; write grad_accumulation_steps=2"),
        ({"task": "same"}, "task has been renamed; write objective=copy"),
        ({"form": "padded"}, "form has been renamed; write packing=padded"),
    ],
)
def test_a_former_name_on_the_command_line_names_the_new_one(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        preset("pocket").with_settings(settings)


def test_every_setting_is_described() -> None:
    lines = [line for part in PARTS for line in describe(part)]
    assert (
        "seed=0: seed of the initialization, the data order and dropout (at least 0 and less than 4,294,967,296)"
        in lines
    )
    assert {line.partition("=")[0] for line in lines} == set(json.loads(preset("pocket").to_json())) - {
        "preset",
        "pieces",
        "imported",
        "schedule_start",
    }
