"""Fixtures of all tests: the command line as a real process, and a cache folder for the test run."""

import contextlib
import ctypes
import gc
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

# Where an environment forbids bytecode files, each of the hundreds of processes would compile the project's modules
# again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import psutil
import pytest
from click.testing import CliRunner
from filelock import FileLock
from hypothesis import settings

from commandline import invocation
from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.resident.server import Server
from grader.worker.xla_flags import QUICK_TO_COMPILE
from tests.forked import ROOT, Preloaded

# For this process, whose JAX reads them once, when a test file first uses it, and for those that tests start. A second
# thread for each of these small matrix products costs more than it saves.
os.environ["XLA_FLAGS"] = f"{QUICK_TO_COMPILE} --xla_cpu_multi_thread_eigen=false"

settings.register_profile("course", deadline=None)  # a first call compiles
settings.load_profile("course")

# A test run in the background of a script ignores Ctrl-C, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A process of the tests holds millions of objects, most of them traced programs that JAX keeps. To look for garbage
# among them as often as Python does by default takes a twentieth of the time of all tests.
gc.set_threshold(10_000, 50, 100)

# Parts of the names of tests that take a minute or more. They run first, so that no core is idle at the end. Of the
# capstone's, only one does: it leaves reference outputs, which are training runs, in the cache for the others.
LONG = (
    "killed_at_random",
    "every_reference",
    "test_stubs_are_left_out",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(part in item.nodeid for part in LONG))
    gc.freeze()  # what has been imported is not garbage


def cli_runner() -> CliRunner:
    """A runner of commands that keeps what they print to stdout and to stderr apart, as click does since 8.2."""
    mixed = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(mix_stderr=False) if mixed else CliRunner()


@dataclass(frozen=True)
class Run:
    """A finished `grade` command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.out)


Grade = Callable[..., Run]


def wait_for_busy_workers(judge: int) -> list[psutil.Process]:
    """Waits until a worker below the judge with this process id computes, and returns all processes below the judge.

    The command line of a forked worker is that of the zygote, which is its ancestor.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        below = psutil.Process(judge).children(recursive=True)
        for process in below:
            with contextlib.suppress(psutil.Error):
                forked = all("grader.worker.zygote" in one.cmdline() for one in (process, process.parent()))
                if forked and process.cpu_times().user > 0.3:
                    return below
        time.sleep(0.05)
    raise AssertionError(f"no worker of process {judge} has computed for 0.3 s")


NO_SHIFT = "logits[:-1], token_ids[:-1]"  # a misconception of problem 07, as its edit to the reference


def misconception_name(problem: str, replacement: str) -> str:
    """The name of the misconception that puts `replacement` into the reference. Tests do not quote names: authors
    reword them."""
    misconceptions = catalog.misconceptions(catalog.find(problem))
    return next(item.name for item in misconceptions if any(replacement in form for form in item.replace))


def boot(root: Path = ROOT) -> str:
    """The text of a program that runs `grade` of the course in `root`."""
    return f"import sys; sys.path.insert(0, {str(root)!r}); from grader.cli.learner import main; main()"


# `grade` as a program file, like an installed one. Processes of a pool import it again and must not run it.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from grader.cli.learner import main
if __name__ == "__main__":
    main()
"""


def write_program(path: Path, root: Path = ROOT) -> None:
    """Writes an executable file that runs `grade` of the course in `root`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM.format(python=sys.executable, root=str(root)))
    path.chmod(0o755)


# Linux gives a process 65,530 mappings of memory, and XLA dies for want of one. Each program takes three or more, and a
# thousand mappings take a tenth of a gigabyte. To forget the programs takes seconds, and what is needed again must be
# traced and loaded.
MAPPINGS, MOST_MAPPINGS = Path("/proc/self/maps"), 20_000


@pytest.fixture(scope="module", autouse=True)
def room_for_programs() -> Iterator[None]:
    """Forgets the compiled programs of former test files when they are many, and gives their memory back."""
    yield
    programs = sys.modules.get("tests.programs")
    if programs and MAPPINGS.exists() and len(MAPPINGS.read_bytes().splitlines()) > MOST_MAPPINGS:
        programs.forget()
        with contextlib.suppress(AttributeError):  # of C libraries, glibc has it
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder that all test processes share. The user's own caches are not touched."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "cache"
    os.environ["GRADE_CACHE"] = str(folder)
    os.environ["HARNESS_CACHE"] = str(shared / "harness-cache")
    os.environ["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("run"))  # no fork server of somebody's watch mode
    os.environ["GRADE_RESIDENT"] = "0"  # no test leaves a process behind
    if "jax" in sys.modules:  # a test file has imported it
        import_module("tests.programs").share(shared / "programs-of-tests")
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns the folder `name`, which one process of the tests makes for all. Tests only read it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    done = folder.with_name(f"{name}.done")
    with FileLock(folder.with_name(f"{name}.lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what another one could not finish
            make(folder)
            done.touch()
    return folder


@pytest.fixture(autouse=True)
def options_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in this process, and not in one of its own, does not change how later tests spell
    commands."""
    monkeypatch.setattr(invocation, "_options", {})


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A solution of problem 07 that does not shift the targets."""
    text = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
    path = tmp_path / "wrong.py"
    path.write_text(text.replace("token_ids[1:]", "token_ids[:-1]"))
    return path


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """One fork server for all tests of this process, so that JAX is imported once."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def lender(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[str]:
    """The runtime folder of a program that lends the fork server, as watch mode does."""
    folder = str(tmp_path_factory.mktemp("lender"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        server = Server(lambda lend: lend(fork_server))
    yield folder
    server.close()


@pytest.fixture(scope="session")
def preloaded_grade() -> Iterator[Preloaded]:
    """The process that `grade` is forked from."""
    preloaded = Preloaded(
        "grader.cli.learner", "grader.judge.bundled_outputs", "grader.report.terminal", "grader.report.json_report"
    )
    yield preloaded
    preloaded.close()


@pytest.fixture
def grade(tmp_path: Path, lender: str, preloaded_grade: Preloaded) -> Grade:
    """A function that runs `grade ARGS` as a process, in an empty folder or in `cwd`.

    It borrows a fork server; with `XDG_RUNTIME_DIR=""` it starts its own.
    """

    def run(*args: object, cwd: Path = tmp_path, root: Path = ROOT, timeout: float = 900, **env: str) -> Run:
        if root == ROOT and not env:
            environment = os.environ | {"XDG_RUNTIME_DIR": lender}
            return Run(*preloaded_grade.run([*map(str, args)], cwd, environment, timeout))
        completed = subprocess.run(
            [sys.executable, "-c", boot(root), *map(str, args)],
            cwd=cwd,
            env={**os.environ, "XDG_RUNTIME_DIR": lender, **env},
            capture_output=True,
            text=True,
            timeout=timeout,  # only stops what hangs
            check=False,
        )
        return Run(completed.returncode, completed.stdout, completed.stderr)

    return run
