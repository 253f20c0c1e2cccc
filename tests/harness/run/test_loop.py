"""Training as real processes: a run that is stopped or killed resumes to the same result."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run, made_once
from tests.forked import Preloaded
from tests.harness.conftest import MEASURED, STORIES, Harness, command

SETTINGS = [
    "--set",
    "context=16",
    "--set",
    "d_model=16",
    "--set",
    "num_heads=2",
    "--set",
    "d_ff=24",
    "--set",
    "num_layers=2",
    "--set",
    "batch_size=8",
    "--set",
    "eval_every=8",
    "--set",
    "eval_batches=2",
    "--set",
    "dropout=0.1",
    "--set",
    "chart_every=120",
    "--set",
    "sample_every=120",
    "--quiet",
]
STEPS = 120


def computed(run: Path) -> list[dict]:
    """The lines of metrics.jsonl without the measured values."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in MEASURED} for line in lines]


def parameters(run: Path, step: int) -> list[np.ndarray]:
    """All arrays of the checkpoint, including the optimizer's, read without the harness."""
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without shardings, arrays are read onto the device that wrote them
        tree = checkpointer.restore(run / "checkpoints" / str(step) / "state")
    return [np.asarray(tree[name]) for name in sorted(tree)]


def assert_same_run(one: Path, other: Path, step: int = STEPS) -> None:
    assert [line["step"] for line in computed(one)] == list(range(1, step + 1))
    assert computed(one) == computed(other)
    for a, b in zip(parameters(one, step), parameters(other, step), strict=True):
        np.testing.assert_array_equal(a, b)


def arguments(file: Path, root: Path, *more: object) -> list[str]:
    values = ("train", "--run", "r", "--runs", root, "--data", file, "--steps", STEPS, *SETTINGS, *more)
    return [*map(str, values)]


def run_to_the_end(preloaded: Preloaded, file: Path, root: Path) -> Path:
    code, _, err = preloaded.run(arguments(file, root), root.parent, dict(os.environ), 300)
    assert code == 0, err
    return root / "r"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, preloaded_harness: Preloaded) -> Path:
    """The uninterrupted run, trained once for all test processes."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "stories.txt").write_text(STORIES)
        run_to_the_end(preloaded_harness, folder / "stories.txt", folder)

    return made_once(tmp_path_factory, "uninterrupted", make) / "r"


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.thorough)])
def test_a_run_killed_at_random_moments_ends_the_same(
    kills: int, stories_file: Path, tmp_path: Path, uninterrupted: Path, preloaded_harness: Preloaded
) -> None:
    root = tmp_path / "killed"
    rng = random.Random(7)
    metrics = root / "r" / "metrics.jsonl"

    def lines() -> int:
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    for kill in range(kills):
        process = subprocess.Popen(
            command(*arguments(stories_file, root)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Kills some processes while they start, and most soon after the first step; each saves every eight steps.
        # The last one has made a step: a process that has none from before it may be killed without a line.
        if kill % 3 == 1:
            time.sleep(rng.uniform(0.5, 3))
        else:
            before, deadline = lines(), time.monotonic() + 300  # a busy machine takes long to start
            while lines() <= before and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.wait()
    assert 0 < lines() < STEPS
    killed = run_to_the_end(preloaded_harness, stories_file, root)
    assert_same_run(uninterrupted, killed)


@pytest.mark.thorough
def test_a_killed_run_with_several_stories_per_row_ends_the_same(
    stories_file: Path, tmp_path: Path, preloaded_harness: Preloaded
) -> None:
    packing = ("--set", "packing=segments")
    runs = []
    for name in ("whole", "killed"):
        root = tmp_path / name
        if name == "killed":
            process = subprocess.Popen(
                command(*arguments(stories_file, root, *packing)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            deadline = time.monotonic() + 300
            while not (root / "r" / "checkpoints" / "8").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
            process.wait()
            assert 8 <= (root / "r" / "metrics.jsonl").read_bytes().count(b"\n") < STEPS
        code, _, err = preloaded_harness.run(arguments(stories_file, root, *packing), tmp_path, dict(os.environ), 300)
        assert code == 0, err
        assert "resuming at step" in err or name == "whole"
        runs.append(root / "r")
    assert_same_run(*runs)


def test_a_signal_saves_a_checkpoint_and_the_run_resumes_exactly(
    stories_file: Path, tmp_path: Path, uninterrupted: Path, preloaded_harness: Preloaded
) -> None:
    root = tmp_path / "stopped"
    metrics, last = root / "r" / "metrics.jsonl", 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, it is ignored
        process = subprocess.Popen(
            command(*arguments(stories_file, root)), stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
        )
        signal.signal(signal.SIGHUP, inherited)
        before = last
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= before + 5):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Stopped at step" in stderr
        assert "checkpoint saved. Rerun the same command to resume." in stderr
        last = computed(root / "r")[-1]["step"]
        assert before + 5 <= last < STEPS
        assert (root / "r" / "checkpoints" / str(last)).is_dir()
    assert_same_run(uninterrupted, run_to_the_end(preloaded_harness, stories_file, root))


@pytest.mark.thorough
def test_a_to_a_learns_to_copy(harness: Harness, tmp_path: Path) -> None:
    result = harness("train", "--preset", "a-to-a", "--data", "pocket:3000", "--quiet")
    assert result.code == 0, result.err
    lines = computed(tmp_path / "runs" / "a-to-a")
    assert abs(lines[0]["loss"] / np.log(2048) - 1) < 0.02
    assert lines[-1]["loss"] < 0.01
    assert lines[-1]["validation_loss"] < 0.01
    sampled = harness("sample", "a-to-a", "--prompt", "Every effort moves you", "--max-tokens", 3, "--temperature", 0)
    assert sampled.out == "Every effort moves you you you you\n"
    folder = tmp_path / "runs" / "a-to-a"
    for chart in ("loss.svg", "lr.svg"):
        assert (folder / chart).read_text().startswith("<svg")
    assert len(list((folder / "samples").iterdir())) == len(lines) // 50 + 1, "and one before the first step"
    assert harness("train", "--preset", "a-to-a", "--data", "pocket:3000", "--quiet").out == result.out, (
        "a finished run prints its report again"
    )


def assert_error(result: Run, code: int, *phrases: str) -> None:
    """The command ended with this exit code and a message that contains these phrases."""
    assert result.code == code, result.err
    assert "Traceback" not in result.err
    lines = result.err.strip().splitlines()
    assert any(line.startswith(("harness: ", "Error: ")) for line in lines), result.err
    for phrase in phrases:
        assert phrase in result.err


def test_usage_errors(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    assert_error(harness("train", "--preset", "pockets"), 2, "Did you mean pocket?")
    assert_error(harness("train", "--data", "nowhere.txt"), 2, "There is no file nowhere.txt")
    assert_error(harness("train", "--set", "steps"), 2, "KEY=VALUE")
    assert_error(harness("train", "steps=40", "lr=1"), 2, "needs --set before it: --set steps=40 --set lr=1")
    assert_error(harness("train", "mine.txt"), 2, "A text needs --data before it: --data mine.txt")
    assert_error(harness("train", "--steps", 0), 2, "steps=0 is not valid; it must be at least 1")
    assert_error(harness("train", "--set", "seed=-1"), 2, "seed=-1 is not valid")
    assert_error(harness("train", "--set", "accumulate=2"), 2, "write grad_accumulation_steps=2")
    assert_error(harness("data", "pocket", "--validation", 0.1), 2, "--validation-fraction")
    assert_error(harness("train", "--mesh", "4x2"), 2, "needs 8 devices; there are 1", "JAX_NUM_CPU_DEVICES=8")
    assert_error(harness("train", "--run", "../x"), 2, "--run ../x is not valid")
    assert_error(harness("sample", "nothing"), 2, "There is no run 'nothing'")
    (tmp_path / "empty.txt").write_text("")
    assert_error(harness("train", "--data", "empty.txt"), 2, "empty.txt contains no text. Was the file saved?")
    assert_error(
        harness("train", "--data", stories_file, "--set", "vocab_size=100"), 2, "outside the vocabulary of 100"
    )
    assert not (tmp_path / "runs").exists(), "a run that cannot start leaves no folder"


def test_a_run_with_different_settings_is_rejected(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    first = harness("train", "--run", "a", "--data", stories_file, *SETTINGS, "--steps", 4)
    assert first.code == 0, first.err
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "runs").rglob("*") if path.name != ".lock")
    assert_error(
        harness("train", "--run", "a", "--data", stories_file, *SETTINGS, "--steps", 8),
        2,
        "steps: 4 -> 8",
        "`harness resume a --steps 8` adds steps",
    )
    other = harness("train", "--run", "a", "--data", stories_file, *SETTINGS, "--steps", 8, "--set", "seed=1")
    assert_error(other, 2, "seed: 0 -> 1")
    assert "adds steps" not in other.err, "which would be another seed than the command names"
    assert (
        sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "runs").rglob("*") if path.name != ".lock")
        == before
    )
    resumed = harness("train", "--run", "a", "--quiet")  # without options, the run keeps its settings
    assert resumed.code == 0, resumed.err
    evaluated = harness("eval", "a")
    assert evaluated.code == 0, evaluated.err
    assert "bigram" in evaluated.out


@pytest.mark.thorough
def test_without_a_terminal_progress_is_plain_text(harness: Harness, stories_file: Path) -> None:
    result = harness(
        "train", "--run", "a", "--data", stories_file, *[word for word in SETTINGS if word != "--quiet"], "--steps", 4
    )
    assert result.code == 0, result.err
    assert "\x1b" not in result.out + result.err
    assert "training a: 4 of 4 steps" in result.err


def test_presets_and_settings_do_not_import_jax() -> None:
    code = (
        "import sys; from harness.cli.main import main\n"
        "for command in ('presets', 'settings'):\n"
        "    try: main([command])\n"
        "    except SystemExit: pass\nassert 'jax' not in sys.modules"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "six-by-192" in process.stdout
    assert "batch_size=32: rows per step" in process.stdout
