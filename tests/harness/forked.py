"""Runs `harness` in a process forked from one that has imported it: the import takes longer than most of the commands.

Imports nothing else, because each of these processes imports this module.
"""

import multiprocessing
import os
import signal
import sys
import warnings
from pathlib import Path

_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(["harness.cli.main", "harness.run.loop", "harness.pieces.load"])


def run_forked(arguments: list[str], folder: Path, outputs: tuple[Path, Path], timeout: float = 300, **env: str) -> int:
    """Runs `harness ARGUMENTS` in `folder` and returns its exit code. Its stdout and stderr are written to the files `outputs`.

    JAX reads its own variables when it is imported, so it has those of the first call, but for the number of devices.
    """
    process = _FORK_SERVER.Process(target=_main, args=(arguments, folder, os.environ | env, outputs))
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"`harness {' '.join(arguments)}` runs for more than {timeout} s")
    return process.exitcode


def _main(arguments: list[str], folder: Path, environment: dict[str, str], outputs: tuple[Path, Path]) -> None:
    import jax

    from harness.cli.main import main

    jax.config.update("jax_num_cpu_devices", int(environment.get("JAX_NUM_CPU_DEVICES", 1)))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, stream in zip(outputs, (sys.stdout, sys.stderr), strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the fork server ignores it
    warnings.simplefilter("error")
    sys.argv = ["harness", *arguments]
    main()
