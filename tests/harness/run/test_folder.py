"""The folder of a run: one config, one line of metrics per step, one process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.run.folder import Run
from harness.run.metrics_file import MetricsWriter
from tests.harness.conftest import TINY

pytestmark = pytest.mark.fast


def test_a_run_is_not_resumed_with_different_settings(tmp_path: Path) -> None:
    run = Run(tmp_path / "one")
    assert run.create_or_check(TINY) is False
    assert run.create_or_check(replace(TINY, mesh="4x2")) is True, "machine settings may change"
    before = run.config_file.read_bytes()
    with pytest.raises(UsageError, match=r"(?s)d_model: 16 -> 32.*seed: 0 -> 5.*Use the same settings to resume it"):
        run.create_or_check(replace(TINY, d_model=32, seed=5))
    assert run.config_file.read_bytes() == before


def test_metrics_after_the_checkpoint_and_an_incomplete_line_are_removed(tmp_path: Path) -> None:
    run = Run(tmp_path)
    writer = MetricsWriter(run.metrics_file)
    for step in range(1, 8):
        writer.write({"step": step, "loss": 1 / step})
    writer.close()
    with run.metrics_file.open("a") as file:
        file.write('{"step": 8, "lo')
    run.truncate_metrics(5)
    assert [entry["step"] for entry in run.metrics()] == [1, 2, 3, 4, 5]
    writer = MetricsWriter(run.metrics_file)
    writer.write({"step": 6, "loss": 1 / 6})
    writer.close()
    assert [entry["loss"] for entry in run.metrics()] == [1 / step for step in range(1, 7)], (
        "numbers are read back exactly"
    )


def test_find_takes_a_name_or_a_path_and_lists_the_runs(tmp_path: Path) -> None:
    Run(tmp_path / "one").create_or_check(TINY)
    assert Run.find(tmp_path, "one").config() == TINY
    assert Run.find(Path("elsewhere"), str(tmp_path / "one")).config() == TINY
    with pytest.raises(UsageError, match="Existing runs: one"):
        Run.find(tmp_path, "two")
    with pytest.raises(UsageError, match="Train one with `harness train`"):
        Run.find(tmp_path / "nowhere", "two")


def test_a_model_of_transformers_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UsageError, match=r"model is a model in Hugging Face's format, not a run: name it hf:.*model\."):
        Run.find(tmp_path, "model").config()


def test_commands_in_messages_find_the_run(tmp_path: Path) -> None:
    for folder, typed in (("runs/mine", "mine"), ("other/mine", "other/mine"), ("runs/my text", "'my text'")):
        assert Run(Path(folder)).typed == typed


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    with Run(tmp_path).locked(), pytest.raises(UsageError, match="Another process is training"), Run(tmp_path).locked():
        pass
    with Run(tmp_path).locked():
        pass


def test_a_run_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written: .*\. Choose another directory with --runs"):
        Run(tmp_path / "file" / "r").locked().__enter__()


def test_a_run_whose_checkpoints_are_gone_is_not_started_over(tmp_path: Path) -> None:
    run = Run(tmp_path / "r")
    run.create_or_check(TINY)
    run.metrics_file.write_text('{"step": 1}\n')
    assert run.create_or_check(TINY), "as when it was killed before its first checkpoint"
    run.checkpoints.rmdir()
    with pytest.raises(UsageError, match=r"has metrics, but .*checkpoints is gone"):
        run.create_or_check(TINY)
    assert run.metrics() == [{"step": 1}]


def test_metrics_are_json_whatever_the_numbers(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.jsonl")
    writer.write({"step": 1, "loss": float("nan"), "gradient_norm": float("inf"), "validation_loss": None})
    writer.close()
    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "step": 1, "loss": None, "gradient_norm": None, "validation_loss": None,
    }  # fmt: skip
