"""Scratch folders of workers: created, removed whatever a submission left in them, and swept up after a killed judge."""

import atexit
import contextlib
import os
import secrets
import sys
import tempfile
from functools import cache
from pathlib import Path

from commandline import files

_PREFIX = "grade-"
_LOCK = "in-use"


def create() -> str:
    """Creates an empty folder and returns its path."""
    return tempfile.mkdtemp(dir=_home())


@cache
def _home() -> Path:
    """This process's own folder in the system's temporary folder, locked for as long as this process lives."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if files.lock(folder / _LOCK) is None:  # swept up before it was locked
        return _home()
    atexit.register(leave)
    return folder


def sweep() -> None:
    """Removes the folders of judges that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _sweep(folder)


def leave() -> None:
    """Removes this process's own folder."""
    if _home.cache_info().currsize:
        remove(str(_home()))
        _home.cache_clear()


def _sweep(folder: Path) -> None:
    """Removes a folder whose judge is gone. A folder without a lock file is still being created."""
    with contextlib.suppress(OSError):
        own = not folder.is_symlink() and (sys.platform == "win32" or folder.stat().st_uid == os.getuid())
        unlock = files.lock(folder / _LOCK) if own and (folder / _LOCK).exists() else None
        if unlock is not None:
            remove(str(folder))
            unlock()
            remove(str(folder))  # Windows does not remove an open file


def remove(top: str) -> None:
    """Removes a folder and its contents. Never fails: leaves what cannot be removed.

    A tree may be deeper than the longest path and than Python can recurse, so inner folders are first moved to the top.
    """
    number, unique = 0, secrets.token_hex(8)
    pending = [Path(top)]
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif folder == Path(top):
                    pending.append(Path(entry.path))
                else:
                    number += 1
                    moved = Path(top) / f"{unique}-{number}"
                    os.rename(entry.path, moved)
                    pending.append(moved)
        if folder != Path(top):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    with contextlib.suppress(OSError):
        os.rmdir(top)
