"""A run's folder: one config, each step once."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.run.folder import MetricsWriter, Run
from tests.harness.conftest import TINY


def test_a_run_is_not_gone_on_with_under_other_settings(tmp_path: Path) -> None:
    run = Run(tmp_path / "one")
    assert run.create_or_check(TINY) is False
    assert run.create_or_check(replace(TINY, mesh="4x2")) is True, "the machine may change"
    before = run.config_file.read_bytes()
    with pytest.raises(UsageError, match=r"(?s)d_model: 16 -> 32.*seed: 0 -> 5"):
        run.create_or_check(replace(TINY, d_model=32, seed=5))
    assert run.config_file.read_bytes() == before


def test_metrics_after_the_checkpoint_and_a_torn_line_are_forgotten(tmp_path: Path) -> None:
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
    assert [entry["loss"] for entry in run.metrics()] == [1 / step for step in range(1, 7)], "numbers come back exactly"


def test_a_run_is_found_by_name_or_path_or_the_others_are_named(tmp_path: Path) -> None:
    Run(tmp_path / "one").create_or_check(TINY)
    assert Run.find(tmp_path, "one").config() == TINY
    assert Run.find(Path("elsewhere"), str(tmp_path / "one")).config() == TINY
    with pytest.raises(UsageError, match="There are: one"):
        Run.find(tmp_path, "two")
    with pytest.raises(UsageError, match="none yet"):
        Run.find(tmp_path / "nowhere", "two")


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    with Run(tmp_path).locked(), pytest.raises(UsageError, match="another process"), Run(tmp_path).locked():
        pass
    with Run(tmp_path).locked():
        pass
