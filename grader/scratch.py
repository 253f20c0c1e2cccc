"""Scratch folders: made for workers, removed however a submission left them, and swept up after judges that were killed."""

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
_locks: list[object] = []  # a lock is released when nothing refers to it


def make() -> str:
    """A new, empty folder."""
    return tempfile.mkdtemp(dir=_home())


@cache
def _home() -> Path:
    """This process's own folder in the system's temporary one. A lock says that it is in use for as long as we live."""
    sweep()
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = files.lock(made / _LOCK)
    if lock is None:  # swept up before it was locked
        return _home()
    _locks.append(lock)
    atexit.register(leave)
    return made


def sweep() -> None:
    """Removes what judges that were killed left behind."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _sweep(old)


def leave() -> None:
    """Removes this process's own folder."""
    if _home.cache_info().currsize:
        remove(str(_home()))
        _home.cache_clear()


def _sweep(folder: Path) -> None:
    """Removes the folder of a judge that is gone. One without a lock is just being made."""
    with contextlib.suppress(OSError):
        ours = not folder.is_symlink() and (sys.platform == "win32" or folder.stat().st_uid == os.getuid())
        lock = files.lock(folder / _LOCK) if ours and (folder / _LOCK).exists() else None
        if lock is not None:
            remove(str(folder))
            lock.release()
            remove(str(folder))  # Windows removes no open file


def remove(top: str) -> None:
    """Removes a folder and everything in it. Never fails: what cannot be removed stays.

    A tree may be deeper than a path may be long and than Python recurses, so inner folders are moved up first.
    """
    number, unique = 0, secrets.token_hex(8)
    waiting = [Path(top)]
    while waiting:
        folder = waiting.pop()
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
                    waiting.append(Path(entry.path))
                else:
                    number += 1
                    moved = Path(top) / f"{unique}-{number}"
                    os.rename(entry.path, moved)
                    waiting.append(moved)
        if folder != Path(top):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    with contextlib.suppress(OSError):
        os.rmdir(top)
