"""Runs commands in processes that are forked from one which has imported them: the imports take longer than most
commands.

The process runs this file alone, so that it imports nothing of the tests.

Measured on 29 November 2026: the tests of `grader/cli` and of `test_loop.py` and `test_epochs.py` of `harness/run` take
101 seconds of computing with it, and 120 without. To remove it, let the fixtures `grade` and `harness` run `python -c`
with the `main` that they name.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Preloaded:
    """A process that has imported `modules`. Each command is the `main` of the first, in a fork of it. Used by one
    thread.

    `flags` are those of Python.
    """

    def __init__(self, *modules: str, flags: tuple[str, ...] = ()) -> None:
        self._command = [sys.executable, *flags, __file__, *modules]
        self._server: subprocess.Popen[str] | None = None

    def run(self, arguments: list[str], folder: Path, env: dict[str, str], timeout: float) -> tuple[int, str, str]:
        """The exit code, stdout and stderr of a command in `folder`. Raises TimeoutError if it runs for `timeout`
        seconds.

        What is read when a process starts or imports, such as JAX's own variables, is as it was for the first command.
        """
        if self._server is None:
            self._server = subprocess.Popen(
                self._command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as outputs:
            paths = [Path(outputs, name) for name in ("out", "err")]
            server.stdin.write(json.dumps([arguments, str(folder), env, [*map(str, paths)]]) + "\n")
            server.stdin.flush()
            if not select.select([server.stdout], [], [], timeout)[0]:
                self.close()
                raise TimeoutError(f"{arguments} runs for more than {timeout} s")
            return int(server.stdout.readline()), *(path.read_text() for path in paths)

    def close(self) -> None:
        """Ends the process."""
        if self._server is not None:
            with self._server as server:
                server.kill()
            self._server = None


def _serve(modules: list[str]) -> None:
    """Forks a process for each line of stdin, and answers with its exit code."""
    sys.path[0] = str(ROOT)
    command, *_ = [import_module(module) for module in modules]
    gc.freeze()  # no command looks for garbage among what is imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    for line in requests:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads, which only libraries have
            child = os.fork()
        if not child:
            requests.close()
            answers.close()
            _become(*json.loads(line))
            command.main()
            sys.exit()  # as other programs end
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers)


def _become(arguments: list[str], folder: str, env: dict[str, str], outputs: list[str]) -> None:
    """Gives this process what a program has when it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number, path in enumerate([os.devnull, *outputs]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.argv = ["-c", *arguments]


if __name__ == "__main__":
    _serve(sys.argv[1:])
