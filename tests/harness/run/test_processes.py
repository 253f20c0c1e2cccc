"""Several processes on this machine train like one: they agree on what to resume, on when to stop, and on errors."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from harness.run.folder import Run
from tests.harness.conftest import Harness, command

SETTINGS = ["context=16", "d_model=16", "num_heads=2", "d_ff=24", "num_layers=2", "batch_size=8", "eval_every=8",
            "eval_batches=2", "learning_rate=3e-4", "warmup_steps=2", "chart_every=24", "sample_every=24"]  # fmt: skip
STEPS = 24
ROUNDING = 3e-6  # six units in the last place of a float32 near 7.6, which the losses are


def arguments(stories: object, root: Path, *more: object) -> list[object]:
    chosen = [word for setting in SETTINGS for word in ("--set", setting)]
    return ["train", "--run", "r", "--runs", root, "--data", stories, "--steps", STEPS, *chosen, "--quiet", *more]


def start(number: int, words: list[object], **env: str) -> list[subprocess.Popen[str]]:
    """So many processes that find each other by a port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    by_hand = ["--coordinator", f"127.0.0.1:{port}", "--processes", number]
    return [
        subprocess.Popen(
            command(*words, *by_hand, "--process", index),
            env={**os.environ, "JAX_NUM_CPU_DEVICES": "1", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(number)
    ]


def finish(processes: list[subprocess.Popen[str]], code: int = 0) -> list[tuple[str, str]]:
    """stdout and stderr of each process, once all have ended with this exit code."""
    outputs = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [code] * len(processes), outputs
    return outputs


def alone(words: list[object]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def losses(root: Path) -> list[list[float]]:
    return [[entry["loss"], entry["validation_loss"] or 0.0] for entry in Run(root / "r").metrics()]


def stop_after(root: Path, lines: int, process: subprocess.Popen[str], number: int) -> None:
    metrics = root / "r" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= lines):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)


@pytest.mark.thorough
def test_two_processes_stopped_by_a_signal_and_resumed_on_one_are_one_run(
    stories_file: Path, tmp_path: Path, harness: Harness
) -> None:
    """SIGTERM to the second one stops both after the same step."""
    one, two = tmp_path / "one", tmp_path / "two"
    processes = start(2, arguments(stories_file, two, "--set", "sample_every=8"))
    stop_after(two, 9, processes[1], signal.SIGTERM)
    (out, err), (other_out, other_err) = finish(processes)
    stopped = len(losses(two))
    assert 9 <= stopped < STEPS
    assert f"Stopped at step {stopped} of {STEPS}; checkpoint saved. Rerun the same command to resume." in err
    assert (two / "r" / "checkpoints" / str(stopped)).is_dir()
    assert (out, other_out) == ("", ""), "Gloo prints nothing"
    # The second process says nothing itself; JAX logs the signal.
    assert [line for line in other_err.splitlines() if "SIGTERM caught" not in line] == []
    assert (two / "r" / "samples" / "0000008.txt").read_text().startswith("The cat saw a ball 0 times.")
    resumed = harness(*arguments(stories_file, two))
    assert f"resuming at step {stopped} of {STEPS}" in resumed.err
    assert harness(*arguments(stories_file, one)).code == 0
    assert len(losses(two)) == STEPS
    np.testing.assert_allclose(losses(one), losses(two), rtol=0, atol=ROUNDING)


def test_an_error_of_one_process_ends_all_with_its_message(tmp_path: Path) -> None:
    outputs = finish(start(2, arguments(tmp_path / "nowhere.txt", tmp_path)), code=2)
    assert all(f"harness: There is no file {tmp_path}/nowhere.txt" in err for _, err in outputs)
    assert not (tmp_path / "r").exists()


@pytest.mark.thorough
def test_two_processes_draw_and_report_like_one_and_resume_on_one_and_back(stories_file: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    often = ("--set", "chart_every=8", "--set", "sample_every=8")
    processes = start(2, arguments(stories_file, two, *often))
    stop_after(two, 5, processes[0], signal.SIGINT)  # Ctrl-C does the same
    finish(processes)
    on_one = subprocess.Popen(command(*arguments(stories_file, two, *often)), stderr=subprocess.DEVNULL, text=True)
    stop_after(two, 15, on_one, signal.SIGTERM)
    assert on_one.wait(timeout=600) == 0
    (out, _), (other_out, _) = finish(start(2, arguments(stories_file, two, *often)))
    whole = alone(arguments(stories_file, one, *often))
    np.testing.assert_allclose(losses(one), losses(two), rtol=0, atol=ROUNDING)
    names = [sorted(path.name for path in (root / "r" / "samples").iterdir()) for root in (one, two)]
    assert names[1] == names[0][-len(names[1]) :]
    assert (two / "r" / "loss.svg").exists()
    assert other_out == ""
    assert out.splitlines()[-3:-1] == whole.stdout.splitlines()[-3:-1], "the same sample"


@pytest.mark.thorough
def test_four_processes_find_each_other_as_tasks_of_slurm(stories_file: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:  # JAX derives the port from the number of the job
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            command(*arguments(stories_file, tmp_path / "four", "--processes", "auto", "--fsdp")),
            env={
                **os.environ,
                "JAX_NUM_CPU_DEVICES": "1",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_NODELIST": "localhost",
                "SLURM_NTASKS": "4",
                "SLURM_PROCID": str(index),
                "SLURM_LOCALID": str(index),
                "JAX_COORDINATOR_PORT": str(port),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(4)
    ]
    outputs = finish(processes)
    assert [out for out, _ in outputs[1:]] == ["", "", ""]
    alone(arguments(stories_file, tmp_path / "one"))
    np.testing.assert_allclose(losses(tmp_path / "one"), losses(tmp_path / "four"), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--processes", "2"],
            "--processes 2 needs --coordinator HOST:PORT, with the same address for all processes. With srun",
        ),
        (["--processes", "many"], "--processes many is not valid; write a number, or auto."),
        (
            ["--processes", "2", "--coordinator", "a:1", "--process", "2"],
            "--process 2 is not valid; it must be from 0 to 1",
        ),
        (["--processes", "auto", "--process", "1"], "--processes auto finds the others itself; omit --coordinator"),
        (["--processes", "auto"], "--processes auto found no launcher"),
    ],
)
def test_options_that_do_not_fit_together(
    words: list[str], message: str, harness, stories_file: Path, tmp_path: Path
) -> None:
    result = harness(*arguments(stories_file, tmp_path), *words)
    assert result.code == 2
    assert message in " ".join(result.err.split())
