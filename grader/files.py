"""Files written whole or not at all, and locks that files stand for."""

import os
import sys
import tempfile
from pathlib import Path

from grader.errors import UsageError


def write(path: Path, text: str) -> None:
    """Writes a file, and the folder it stands in, whole or not at all. Raises UsageError if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def lock(path: Path) -> int | None:
    """Takes the lock that a file stands for, until the descriptor is closed or this process ends; None if another has it.

    Raises OSError if the file cannot be made.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file
