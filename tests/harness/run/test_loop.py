"""Runs as real processes: stopped, killed and gone on with, they end as if nothing had happened."""

import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run
from tests.harness.conftest import STORIES, Harness, command

SETTINGS = ["--set", "context=16", "--set", "d_model=16", "--set", "num_heads=2", "--set", "d_ff=24", "--set", "num_layers=2",
            "--set", "batch_size=8", "--set", "eval_every=4", "--set", "eval_batches=2", "--set", "dropout=0.1",
            "--quiet"]  # fmt: skip
MEASURED = ("tokens_per_s", "mfu", "memory")
STEPS = 120


def computed(run: Path) -> list[dict]:
    """The lines of metrics.jsonl without what is measured."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in MEASURED} for line in lines]


def parameters(run: Path, step: int) -> list[np.ndarray]:
    """All arrays of the checkpoint, optimizer included, read without the harness's own restore."""
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no sharding is given: it is read on the one device that wrote it
        tree = checkpointer.restore(run / "checkpoints" / str(step) / "state")
    return [np.asarray(tree[name]) for name in sorted(tree)]


def assert_same_run(one: Path, other: Path, step: int = STEPS) -> None:
    assert [line["step"] for line in computed(one)] == list(range(1, step + 1))
    assert computed(one) == computed(other)
    for a, b in zip(parameters(one, step), parameters(other, step), strict=True):
        np.testing.assert_array_equal(a, b)


def arguments(file: Path, root: Path, *more: object) -> list[str]:
    return command("train", "--run", "r", "--runs", root, "--data", file, "--steps", STEPS, *SETTINGS, *more)


def straight(file: Path, root: Path) -> Path:
    done = subprocess.run(arguments(file, root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root / "r"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody stopped; made once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "whole"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            (folder / "stories.txt").write_text(STORIES)
            straight(folder / "stories.txt", folder)
            (folder / "done").touch()
    return folder / "r"


def test_killed_at_ten_random_moments_it_ends_the_same(stories_file: Path, tmp_path: Path, whole: Path) -> None:
    root = tmp_path / "killed"
    rng = random.Random(7)
    metrics = root / "r" / "metrics.jsonl"

    def lines() -> int:
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    for kill in range(10):
        process = subprocess.Popen(arguments(stories_file, root), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Some while it starts, most soon after it began to train, with a save every four steps.
        if kill in (3, 6):
            time.sleep(rng.uniform(0.5, 3))
        else:
            begun, patience = lines(), time.monotonic() + 60
            while lines() <= begun and process.poll() is None and time.monotonic() < patience:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.wait()
    assert 0 < lines() < STEPS
    killed = straight(stories_file, root)
    assert_same_run(whole, killed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_exactly(
    stories_file: Path, tmp_path: Path, number: int, whole: Path
) -> None:
    root = tmp_path / "stopped"
    process = subprocess.Popen(
        arguments(stories_file, root), stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    metrics = root / "r" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 5):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopped and saved at step" in said
    last = computed(root / "r")[-1]["step"]
    assert 5 <= last < STEPS
    assert (root / "r" / "checkpoints" / str(last)).is_dir()
    assert_same_run(whole, straight(stories_file, root))


def test_two_processes_train_as_one(stories_file: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    steps = 24
    settings = ["--steps", steps, "--set", "dropout=0.0"]
    common = ["--coordinator", f"127.0.0.1:{port}", "--processes", 2, *settings]
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": "2"}
    processes = [
        subprocess.Popen(
            arguments(stories_file, tmp_path / "two", *common, "--process", index),
            env=env,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    ends = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ends
    one = subprocess.run(arguments(stories_file, tmp_path / "one", *settings), capture_output=True, check=False)
    assert one.returncode == 0
    losses = [[line["loss"] for line in computed(tmp_path / name / "r")] for name in ("one", "two")]
    assert len(losses[0]) == steps
    np.testing.assert_allclose(*losses, rtol=1e-3)  # sums over rows in another order, through 24 steps of Adam


def test_a_to_a_learns_to_repeat(harness: Harness, tmp_path: Path) -> None:
    done = harness("train", "--preset", "a-to-a", "--data", "pocket:3000", "--quiet")
    assert done.code == 0, done.err
    lines = computed(tmp_path / "runs" / "a-to-a")
    assert abs(lines[0]["loss"] / np.log(2048) - 1) < 0.02
    assert lines[-1]["loss"] < 0.01
    assert lines[-1]["validation_loss"] < 0.01
    again = harness("sample", "a-to-a", "--prompt", "Every effort moves you", "--max-tokens", 3, "--temperature", 0)
    assert again.out == "Every effort moves you you you you\n"
    folder = tmp_path / "runs" / "a-to-a"
    for chart in ("loss.png", "lr.png"):
        assert (folder / chart).read_bytes().startswith(b"\x89PNG")
    assert len(list((folder / "samples").iterdir())) == len(lines) // 50
    assert harness("train", "--preset", "a-to-a", "--data", "pocket:3000", "--quiet").out == done.out, (
        "a finished run is reported again"
    )


def ends_in_a_sentence(done: Run, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    last = done.err.strip().splitlines()
    assert any(line.startswith(("harness: ", "Error: ")) for line in last), done.err
    for word in words:
        assert word in done.err


def test_what_is_asked_wrongly_is_said(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    ends_in_a_sentence(harness("train", "--preset", "pockets"), 2, "Did you mean pocket?")
    ends_in_a_sentence(harness("train", "--data", "nowhere.txt"), 2, "There is no file nowhere.txt")
    ends_in_a_sentence(harness("train", "--set", "steps"), 2, "KEY=VALUE")
    ends_in_a_sentence(harness("train", "--steps", 0), 2, "steps=0 must be at least 1")
    ends_in_a_sentence(harness("train", "--mesh", "4x2"), 2, "needs 8 devices; there are 1", "JAX_NUM_CPU_DEVICES=8")
    ends_in_a_sentence(harness("train", "--run", "../x"), 2, "one folder's name")
    ends_in_a_sentence(harness("sample", "nothing"), 2, "There is no run 'nothing'")
    (tmp_path / "empty.txt").write_text("")
    ends_in_a_sentence(harness("train", "--data", "empty.txt"), 2, "empty.txt is empty")
    ends_in_a_sentence(
        harness("train", "--data", stories_file, "--set", "vocab_size=100"), 2, "outside the vocabulary of 100"
    )
    assert not (tmp_path / "runs").exists(), "nothing is made for a run that cannot begin"


def test_a_run_under_other_settings_is_refused(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    first = harness("train", "--run", "a", "--data", stories_file, *SETTINGS, "--steps", 4)
    assert first.code == 0, first.err
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "runs").rglob("*") if path.name != ".lock")
    ends_in_a_sentence(
        harness("train", "--run", "a", "--data", stories_file, *SETTINGS, "--steps", 8), 2, "steps: 4 -> 8"
    )
    assert (
        sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "runs").rglob("*") if path.name != ".lock")
        == before
    )
    again = harness("train", "--run", "a", "--quiet")  # the name alone goes on with what it was made with
    assert again.code == 0, again.err
    evaluated = harness("eval", "a")
    assert evaluated.code == 0, evaluated.err
    assert "bigram" in evaluated.out


def test_without_a_terminal_the_log_is_plain(harness: Harness, stories_file: Path) -> None:
    done = harness(
        "train", "--run", "a", "--data", stories_file, *[word for word in SETTINGS if word != "--quiet"], "--steps", 4
    )
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err
    assert "training a: 4 of 4 steps" in done.err


def test_help_and_presets_do_not_wait_for_jax() -> None:
    code = (
        "import sys; from harness.cli import main\n"
        "try: main(['presets'])\nexcept SystemExit: pass\nassert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "six-by-192" in done.stdout
