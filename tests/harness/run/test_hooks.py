"""Intervals of evaluations, checkpoints, charts and samples, and work beside the training."""

import errno
import math
import os
import threading
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from harness.config import Config
from harness.errors import PieceError, UsageError
from harness.run.folder import Run
from harness.run.hooks import Aside
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state


def trained(config: Config, folder: Path) -> Run:
    run = Run(folder)
    assert train(open_session(run, config, None, log=ignore, quiet=True), log=ignore, quiet=True)
    return run


def checkpoints(run: Run) -> list[int]:
    return sorted(int(path.name) for path in run.checkpoints.iterdir() if path.name.isdecimal())


def test_each_kind_of_work_has_its_own_interval(tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, steps=8, eval_every=3, checkpoint_every=2, keep=3, sample_every=4)
    run = trained(config, tmp_path / "run")
    validated = [entry["step"] for entry in run.metrics() if entry["validation_loss"] is not None]
    assert validated == [3, 6, 8]
    assert checkpoints(run) == [4, 6, 8]
    assert sorted(path.name for path in run.samples.iterdir()) == ["0000000.txt", "0000004.txt", "0000008.txt"]


@pytest.mark.parametrize(
    ("losses", "kept"),
    [
        ([3.0, 2.0, 4.0, 2.0, 5.0], [4, 9, 10]),  # an equal one later is not new
        ([3.0, math.nan, 4.0, 1.0, 1.5], [8, 9, 10]),
        ([math.nan, 3.0, 2.0, 4.0, 1.0], [9, 10]),
    ],
)
def test_a_new_best_is_saved_whatever_the_interval_of_checkpoints(
    losses: list[float], kept: list[int], tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = iter(losses)
    monkeypatch.setattr(Session, "measure", lambda self, state: (next(each), {}))
    run = trained(replace(tiny, steps=10, eval_every=2, checkpoint_every=9, keep=2), tmp_path / "run")
    assert checkpoints(run) == kept
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    assert load_state(session)[0] == (kept[0] if kept[0] != 9 else 10)


@pytest.mark.thorough
@pytest.mark.usefixtures("charts_and_samples")
def test_by_default_all_come_with_the_validation_loss(tiny: Config, tmp_path: Path) -> None:
    run = trained(tiny, tmp_path / "run")
    assert checkpoints(run) == [3, 6]
    assert sorted(path.name for path in run.samples.iterdir()) == ["0000000.txt", "0000003.txt", "0000006.txt"]
    assert (run.folder / "loss.svg").exists()


def test_checkpoints_by_time_do_not_change_the_result(tiny: Config, tmp_path: Path) -> None:
    often = trained(replace(tiny, checkpoint_minutes=1e-9, keep=6), tmp_path / "often")
    assert checkpoints(often) == [1, 2, 3, 4, 5, 6]
    losses = [[entry["loss"] for entry in run.metrics()] for run in (often, trained(tiny, tmp_path / "seldom"))]
    assert losses[0] == losses[1]


@pytest.mark.usefixtures("one_device")
def test_work_beside_the_training_runs_in_order_and_reports_errors() -> None:
    said: list[str] = []
    aside = Aside(jax.sharding.get_mesh(), said.append)
    started, may_end, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        started.set()
        may_end.wait(10)
        done.append("slow")

    aside.run("chart", slow)
    aside.run("sample", lambda: done.append("sample"))
    assert started.wait(10)
    assert not done  # the caller went on
    may_end.set()
    aside.wait()
    assert done == ["slow", "sample"]
    for _ in range(2):
        aside.run("charts", full_disk)
    aside.wait()
    assert said == ["The charts could not be written: No space left on device. Training continues."]

    def broken() -> None:
        raise PieceError("generate is broken")

    aside.run("sample", broken)
    with pytest.raises(PieceError):
        aside.run("sample", lambda: None)
    aside.close()


def test_checkpoints_may_be_in_another_folder(tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, checkpoint_dir=str(tmp_path / "elsewhere"))
    run = trained(config, tmp_path / "runs" / "a")
    assert not run.checkpoints.exists()
    assert sorted(path.name for path in (tmp_path / "elsewhere" / "a").iterdir()) == ["3", "6"]
    assert load_state(open_session(run, run.config(), None, log=ignore))[0] in (3, 6)
    with pytest.raises(UsageError, match=r"has metrics, but .*/nowhere/a is gone"):
        trained(replace(config, checkpoint_dir=str(tmp_path / "nowhere")), run.folder)
    with pytest.raises(UsageError, match=r"checkpoint_dir=s3://b is not valid; Orbax writes to folders and to gs://"):
        run.checkpoints_of(replace(config, checkpoint_dir="s3://b"))


def full_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.thorough
def test_training_stops_when_patience_runs_out(tiny: Config, tmp_path: Path) -> None:
    """And can go on with more of it."""
    said: list[str] = []
    config = replace(tiny, learning_rate=0.0, steps=12, eval_every=2, patience=3)
    session = open_session(Run(tmp_path / "run"), config, None, log=said.append, quiet=True)
    for _ in range(2):  # the second time, it stops at once
        assert train(session, log=said.append, quiet=True)
        assert said[-1].startswith("Stopped at step 8 of 12: none of the last 3 validation losses was a new best.")
        assert [entry["step"] for entry in session.run.metrics()] == [*range(1, 9)]
    assert checkpoints(session.run) == [2, 6, 8]  # the best, and the last two
    assert (session.run.samples / "0000008.txt").exists()
    more = open_session(session.run, replace(config, patience=0), None, log=ignore, quiet=True)
    assert train(more, log=ignore, quiet=True)
    assert session.run.metrics()[-1]["step"] == 12
