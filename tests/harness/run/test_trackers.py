"""Trackers give back the curves of metrics.jsonl, through their own readers, and never stop a run."""

import importlib.util
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.run import trackers
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.metrics_file import MetricsWriter
from harness.run.run_session import ignore, open_session
from harness.run.trackers import tracking
from tests.conftest import ROOT
from tests.harness.conftest import TINY

Entry = dict[str, Any]


def entry(step: int) -> Entry:
    """A line with numbers that neither float32 nor a few digits hold, and one that is missing at odd steps."""
    return {
        "step": step,
        "loss": float(np.float32(7.3 / step)),
        "validation_loss": 5 / step if step % 2 == 0 else None,
        "gradient_norm": float("nan") if step == 3 else 0.1,
        "time": 1e9 + step / 7,
        "tokens_per_s": 1234.5,
    }


def write(run: Run, steps: range) -> None:
    """Writes lines and samples as the training loop does."""
    writer = MetricsWriter(run.metrics_file)
    for step in steps:
        writer.write(entry(step))
        if step % 2 == 0:
            run.sample_file(step).write_text(f"After {step} steps, a cat – or two.\n")
    writer.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The folder of a run without metrics."""
    run = Run(tmp_path / "r")
    run.samples.mkdir(parents=True)
    run.metrics_file.touch()
    return run


def assert_tensorboard_equals(run: Run) -> None:
    """TensorBoard's scalars are float32; its steps and times are exact."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    metrics = run.metrics()
    curves = {key for line in metrics for key in line if line[key] is not None} - {"step", "time"}
    assert set(board.Tags()["scalars"]) == curves
    for key in curves:
        written = [
            (line["step"], line["time"], float(np.float32(line[key]))) for line in metrics if line[key] is not None
        ]
        assert [(point.step, point.wall_time, point.value) for point in board.Scalars(key)] == written
    texts = [(point.step, point.tensor_proto.string_val[0].decode()) for point in board.Tensors("sample")]
    assert texts == [
        (line["step"], run.sample_file(line["step"]).read_text())
        for line in metrics
        if run.sample_file(line["step"]).exists()
    ]
    assert texts


def test_the_curves_are_those_of_the_metrics_after_a_resume(run: Run) -> None:
    config = replace(TINY, log="tensorboard")
    for last_step, steps in ((0, range(1, 9)), (5, range(6, 12))):  # the second execution resumes after step 5
        run.truncate_metrics(last_step)
        with tracking(run, config, pytest.fail):
            write(run, steps)
        assert_tensorboard_equals(run)
    assert len(run.metrics()) == 11


def test_a_tracker_that_is_turned_on_later_has_all_steps(run: Run) -> None:
    write(run, range(1, 5))
    with tracking(run, replace(TINY, log="tensorboard"), pytest.fail):
        write(run, range(5, 7))
    assert_tensorboard_equals(run)


def test_points_appear_while_training(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "POLL_SECONDS", 0.01)
    with tracking(run, replace(TINY, log="tensorboard"), pytest.fail):
        write(run, range(1, 4))
        deadline = time.monotonic() + 30
        while not any(b"tokens_per_s" in file.read_bytes() for file in run.folder.glob("tensorboard/*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_tracker_that_fails_is_reported_once_and_others_continue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(run: Run, config: Config) -> None:
        raise OSError("no network")

    monkeypatch.setitem(trackers.TRACKERS, "wandb", no_network)
    said: list[str] = []
    with tracking(run, replace(TINY, log="wandb,tensorboard"), said.append):
        write(run, range(1, 9))
    assert said == ["wandb stopped: no network. Training and metrics.jsonl are not affected."]
    assert_tensorboard_equals(run)


def test_a_tracker_that_hangs_does_not_keep_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    class Hanging(trackers.TensorBoard):
        def metrics(self, entry: Entry) -> None:
            hang.wait()

    monkeypatch.setitem(trackers.TRACKERS, "tensorboard", Hanging)
    monkeypatch.setattr(trackers, "DRAIN_SECONDS", 0.1)
    said: list[str] = []
    with tracking(run, replace(TINY, log="tensorboard"), said.append):
        write(run, range(1, 3))
    hang.set()
    assert said == ["tensorboard stopped: it did not finish within 0 seconds of the last step."]


def test_wrong_names_and_missing_libraries_are_usage_errors(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="log=wandb,tensorbord is not valid; choose tensorboard or wandb, or both"):
        tiny.with_settings({"log": "wandb,tensorbord"})
    resumed = replace(tiny, log="tensorboard").with_machine_settings({"log": ""})
    assert resumed.trackers == ()
    run, find_spec = Run(tmp_path / "runs" / "a"), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wandb" else find_spec(name))
    session = open_session(run, replace(tiny, log="tensorboard, wandb"), None, log=ignore, quiet=True)
    with pytest.raises(UsageError, match=r"--log wandb needs a library: run `.* install .*wandb`"):
        train(session, log=ignore, quiet=True)
    assert not run.folder.exists()


class FakeWandB:
    """The part of wandb's interface that the tracker uses, with a server that keeps what was logged."""

    def __init__(self) -> None:
        self.rows: dict[int, Entry] = {}
        self.ids: set[str] = set()
        self.step = 0
        self.__spec__ = importlib.util.spec_from_loader("wandb", None, origin="fake")

    def setup(self) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(mode="online"))

    def login(self, **options: Any) -> bool:
        return True

    def Settings(self, **options: Any) -> None:  # noqa: N802
        return None

    def init(self, *, id: str, resume: str, dir: Path, **options: Any) -> "FakeWandB":  # noqa: A002
        assert (resume, dir.name) == ("allow", "r")
        self.ids.add(id)
        self.step = max(self.rows, default=-1) + 1
        return self

    def log(self, values: Entry, step: int | None = None, commit: bool = True) -> None:
        step = max(self.rows) if step is None else step
        assert step >= max(self.rows, default=0), "wandb drops values of earlier steps"
        self.rows[step] = self.rows.get(step, {}) | values

    def finish(self) -> None:
        """Nothing to wait for."""

    def teardown(self) -> None:
        """No process that writes."""


def test_wandb_continues_its_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for last_step, steps in ((0, range(1, 5)), (2, range(3, 7))):
        run.truncate_metrics(last_step)
        with tracking(run, replace(TINY, log="wandb"), pytest.fail):
            write(run, steps)
    assert len(fake.ids) == 1
    assert list(fake.rows) == [1, 2, 3, 4, 5, 6]
    for step, row in fake.rows.items():
        assert (row["loss"], row["_timestamp"]) == (entry(step)["loss"], entry(step)["time"])
    assert fake.rows[4]["sample"].startswith("After 4 steps")


def test_wandb_itself_accepts_a_run_offline(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for hook in ("exit", "excepthook"):  # wandb replaces them; later tests get them back
        monkeypatch.setattr(sys, hook, getattr(sys, hook))
    with tracking(run, replace(TINY, log="wandb"), pytest.fail):
        write(run, range(1, 4))
    (file,) = (run.folder / "wandb").glob(f"offline-run-*/run-{(run.folder / 'wandb' / 'id').read_text()}.wandb")
    assert repr(entry(3)["loss"]).encode() in file.read_bytes()


def test_a_training_has_the_curves_of_its_metrics(tiny: Config, tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "a")
    session = open_session(run, replace(tiny, log="tensorboard"), None, log=ignore, quiet=True)
    said: list[str] = []
    assert train(session, log=said.append, quiet=True)
    assert len(run.metrics()) == tiny.steps
    assert_tensorboard_equals(run)
    assert not [sentence for sentence in said if "stopped" in sentence]


def test_a_killed_run_has_the_curves_of_its_metrics(run: Run) -> None:
    config = replace(TINY, log="tensorboard")
    program = (
        "from tests.harness.run.test_trackers import *\n"
        f"run = Run(Path({str(run.folder)!r}))\n"
        f"with tracking(run, replace(TINY, log={config.log!r}), print):\n"
        "    for step in range(1, 100_000):\n"
        "        write(run, range(step, step + 1))\n"
        "        time.sleep(0.01)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if sum(file.read_bytes().count(b"tokens_per_s") for file in run.folder.glob("tensorboard/*")) > 10:
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    killed_at = len(run.metrics())
    assert killed_at > 4
    run.truncate_metrics(killed_at - 3)  # as a resume from the last checkpoint does
    with tracking(run, config, pytest.fail):
        write(run, range(killed_at - 2, killed_at + 4))
    assert [line["step"] for line in run.metrics()] == [*range(1, killed_at + 4)]
    assert_tensorboard_equals(run)
