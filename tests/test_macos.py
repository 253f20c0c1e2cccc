"""A learner's way without fork, namespaces, Landlock and seccomp, as on macOS. Simulated: the modules that choose their
system when they are imported are imported first, and then Python says that it runs on another one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

SIMULATED = """
import sys, sysconfig
sysconfig.get_config_vars()
import asyncio, ctypes.util, multiprocessing, os, psutil, resource, selectors, signal, socket, subprocess, watchfiles
sys.platform = "darwin"
for name in ("eventfd", "fork", "forkpty", "memfd_create", "pidfd_open", "sched_getaffinity", "setns", "unshare"):
    if hasattr(os, name):
        delattr(os, name)
"""
PROGRAM = f"""{SIMULATED}
sys.path.insert(0, {str(ROOT)!r})
import grader.isolation.sandbox
grader.isolation.sandbox._BOOT = {SIMULATED!r} + grader.isolation.sandbox._BOOT
if sys.argv[1] == "grade":
    from grader.cli.learner import main
else:
    from harness.cli.main import main
del sys.argv[1]
main()
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `grade` or `harness` in an empty folder."""

    def run(*args: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, *map(str, args)]
        env = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}  # of `harness`; workers have their own
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.mark.thorough
def test_problems_are_graded(command: Command, tmp_path: Path):
    """The isolation is weak, and that is said: enough for one's own code, not for a class."""
    assert command("grade", "start").returncode == 0
    file = tmp_path / "attempts" / "p07_next_token_loss.py"
    assert "NOT ATTEMPTED" in command("grade", "problem", "07").stdout
    shutil.copy(ROOT / "docs" / "examples" / "p07_looks_back.py", file)
    wrong = command("grade", "problem", "07")
    assert (wrong.returncode, "Likely cause: targets shifted" in wrong.stdout) == (1, True), wrong.stderr
    file.write_bytes((ROOT / "solutions" / file.name).read_bytes().replace(b"\n", b"\r\n"))
    right = command("grade", "problem", "07")
    assert (right.returncode, "PASS" in right.stdout) == (0, True), right.stdout + right.stderr
    assert "weak" in command("grade", "doctor").stdout


@pytest.mark.thorough
def test_a_model_is_trained(command: Command):
    small = [f"--set={setting}" for setting in ("d_model=16", "d_ff=16", "num_layers=1", "context=16", "batch_size=2")]
    trained = command("harness", "train", "--data", "pocket:100", "--steps", 2, *small)
    assert trained.returncode == 0, trained.stderr
    assert command("harness", "sample", "pocket", "--max-tokens", 3).returncode == 0
