"""Whether a command leaves a resident judge behind, and how: a process of its own, which outlives the command."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from commandline.folders import cache_folder
from grader.paths import ROOT
from grader.resident.client import VARIABLE, connected
from grader.resident.connection import LEFT_BEHIND, GoneError

IDLE_SECONDS = 15 * 60.0  # after which it ends
_BOOT = f"import sys; sys.path.insert(0, sys.argv[1]); from {LEFT_BEHIND} import main; main()"


def leave(problem: str, workspace: Path) -> None:
    """Has a resident judge make this problem ready: the one that there is, or else a new one, unless it would be in
    somebody's way."""
    if not is_welcome(workspace):
        return
    if there := connected("prepare"):
        with there, suppress(GoneError):
            if there.is_left_behind():  # a program that stays knows what its user works on
                there.send(problem=problem)
        return
    # It ends with the session of the terminal, unless it was asked for.
    session = 0 if is_asked_for() else os.getsid(0)
    with suppress(OSError):  # a machine that is out of memory or processes
        subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(ROOT), str(session), problem],
            cwd="/",
            env={**os.environ, "GRADE_CACHE": str(cache_folder("GRADE_CACHE").absolute())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def is_asked_for() -> bool:
    """Returns whether the user wants a resident judge in any case."""
    return os.environ.get(VARIABLE) == "1"


def is_welcome(workspace: Path) -> bool:
    """Returns whether a process may stay behind here: never in CI, and never as another user than the one whose work is
    graded.

    Otherwise it may if the user asks for it, or where somebody sits at a terminal whose end it will notice.
    """
    if sys.platform != "linux" or os.environ.get(VARIABLE) == "0" or os.environ.get("CI"):
        return False
    user = os.geteuid()
    if user != os.getuid() or (user == 0 and os.environ.get("SUDO_UID", "0") != "0"):
        return False
    try:
        if workspace.stat().st_uid != user:
            return False
    except OSError:
        return False
    # A command that is its own session, as in a container that runs nothing else, ends it at once.
    has_terminal = sys.stdout.isatty() or sys.stderr.isatty()
    return is_asked_for() or (has_terminal and os.getsid(0) not in (0, os.getpid()))
