"""The probes of problem 81: what verifiers say of answers and of programs, and the runner of these. Run in workers."""

import ast
import atexit
import os
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager, new_folder
from grader.problem import Case

PATIENCE = 30  # times the limit, by the clock: a busy machine gives a program less
START = 3.0  # seconds for the start of an interpreter
MOST_WRITTEN = 1 << 20  # bytes
PROMPT = 1.0  # seconds of computing that `verify` may take


class Runner:
    """Runs programs, each in a process of its own, with a limit on its computing.

    Attributes:
        late: Whether programs that were ended took more than the limit together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.folder, self._lost = seconds, new_folder(), 0.0

    @property
    def late(self) -> bool:
        return self._lost > self.seconds * 1.01

    def run(self, source: str, seconds: float) -> tuple[int | None, str]:
        """Returns the exit code of a program, which is None if it was ended, and what it wrote.

        Raises BadOutputError if the limit is not a number above 0, or is above the one of the case.
        """
        if not isinstance(source, str):
            raise BadOutputError(f"`run` was given {described(source)}; it must be the text of a program")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= self.seconds:
            raise BadOutputError(f"`run` was given the limit {seconds!r}; it must be above 0 and at most `seconds`")
        program, written = self.folder / "program.py", self.folder / "written.txt"
        program.write_text(source, "utf-8", "surrogatepass")
        code = (_forked if sys.platform == "linux" else _started)(program, written, seconds)
        self._lost += seconds * (code is None)
        return code, written.read_bytes()[:MOST_WRITTEN].decode("utf-8", "replace")


def _started(program: Path, written: Path, seconds: float) -> int | None:
    """Runs a program by a new interpreter. Returns its exit code; None if it was ended."""
    with written.open("wb") as output:
        try:
            command = [sys.executable, "-I", str(program)]
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, timeout=START + seconds
            ).returncode
        except subprocess.TimeoutExpired:
            return None


def _forked(program: Path, written: Path, seconds: float) -> int | None:
    """Runs a program in a fork of this process, which may not start another one. Returns its exit code; None if it was
    ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads, which only libraries have
        child = os.fork()
    if not child:
        _become(program, written, seconds)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def _become(program: Path, written: Path, seconds: float) -> None:
    """Makes this process a new interpreter that runs a program. The kernel ends it when its time is up."""
    import resource

    code = 1
    try:
        for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds * PATIENCE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
        for descriptor, path in enumerate((os.devnull, str(written), os.devnull)):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.closerange(3, 256)
        sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))  # noqa: SIM115
        for name in ("stdin", "stdout", "stderr"):
            setattr(sys, f"__{name}__", getattr(sys, name))
        sys.argv = [str(program)]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__file__ = str(program)
        atexit._clear()
        codes = [1]
        # A thread has no frames of this process below its own.
        thread = threading.Thread(target=_execute, args=(program, main, codes))
        thread.start()
        thread.join()
        code = codes[-1]
        for other in threading.enumerate():
            if other is not threading.main_thread() and not other.daemon:
                other.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


def _execute(program: Path, main: types.ModuleType, codes: list[int]) -> None:
    """Runs a program as the interpreter does, and appends its exit code."""
    try:
        exec(compile(program.read_text("utf-8"), str(program), "exec", dont_inherit=True), vars(main))  # noqa: S102
        codes.append(0)
    except SystemExit as left:
        codes.append(left.code if isinstance(left.code, int) else int(left.code is not None))
    except BaseException:
        codes.append(1)


@eager
def verifying(subject: Subject, case: Case) -> Reading:
    """For each answer, whether it is taken for right, and whether that took too much computing."""
    right, late = [], []
    for pair in ast.literal_eval(str(case.values["pairs"])):
        start = time.process_time()
        right.append(_decision(subject, "verify", *pair))
        late.append(time.process_time() - start > PROMPT)
    return Reading({"answers.right": np.array(right, np.int32), "answers.late": np.array(late, np.int32)})


@eager
def judging(subject: Subject, case: Case) -> Reading:
    """For each program, whether it is taken for right, and whether its runs took more than the limit."""
    seconds = float(case.values["seconds"])
    right, late = [], []
    for _, code, tests in ast.literal_eval(str(case.values["programs"])):
        runner = Runner(seconds)
        right.append(_decision(subject, "run_tests", code, tests, seconds, runner.run))
        late.append(runner.late)
    return Reading({"programs.right": np.array(right, np.int32), "programs.late": np.array(late, np.int32)})


def _decision(subject: Subject, name: str, *arguments: Any) -> bool:
    """What an entry says. Raises BadOutputError if it is not True or False."""
    said = subject.call(name, *arguments)
    if not isinstance(said, bool | np.bool_):
        raise BadOutputError(f"`{name}` returned {described(said)}; it must return True or False")
    return bool(said)


PROBES = {"verifying": verifying, "judging": judging}
