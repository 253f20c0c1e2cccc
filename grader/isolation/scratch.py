"""Scratch folders of workers: created in memory, removed whatever a submission left in them, swept up after a killed
judge."""

import atexit
import contextlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from commandline import files

MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory, on Linux
_LEAST_MEMORY = 32 << 20  # bytes that must be free there; containers may have very little
_PREFIX = "grade-"
_LOCK = "in-use"
_UNLOCKED_SECONDS = 3600  # after which the judge of a folder without a lock must have been killed


def create() -> str:
    """Creates an empty folder and returns its path. Call `hold` soon afterwards."""
    return tempfile.mkdtemp(dir=_home())


@cache
def _home() -> Path:
    """Returns this process's own folder, in memory if there is room."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_tops()[0]))
    atexit.register(leave)
    return folder


@cache
def hold() -> None:
    """Locks this process's own folder for as long as this process lives, and removes the folders of judges that were
    killed.

    Not part of `create`: it takes 40 ms, during which a process that was started there can do its imports.
    """
    sweep()
    lock = _home() / _LOCK
    if sys.platform == "win32":  # an open file cannot be renamed there
        files.lock(lock)
    else:
        new = lock.with_name(f"new-{_LOCK}")  # so that no sweep finds a lock file that is not locked yet
        files.lock(new)
        new.rename(lock)


def sweep() -> None:
    """Removes the folders of judges that were killed."""
    for top in _tops():
        for folder in top.glob(f"{_PREFIX}*"):
            _sweep(folder)


def leave() -> None:
    """Removes this process's own folder."""
    if _home.cache_info().currsize:
        remove(str(_home()))
        _home.cache_clear()
        hold.cache_clear()


def _tops() -> list[Path]:
    """Returns the folders that may hold scratch folders. New ones are created in the first."""
    temporary = Path(tempfile.gettempdir())
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK)):
        return [temporary]
    usage = shutil.disk_usage(MEMORY)
    return [MEMORY, temporary] if usage.free >= _LEAST_MEMORY else [temporary, MEMORY]


def _sweep(folder: Path) -> None:
    """Removes a folder whose judge is gone. A folder without a lock file is still being created, unless it is old."""
    with contextlib.suppress(OSError):
        status = folder.lstat()
        if folder.is_symlink() or (sys.platform != "win32" and status.st_uid != os.getuid()):
            return
        if not (folder / _LOCK).exists():
            if status.st_mtime < time.time() - _UNLOCKED_SECONDS:
                remove(str(folder))
            return
        unlock = files.lock(folder / _LOCK)
        if unlock is not None:
            remove(str(folder))
            unlock()
            remove(str(folder))  # Windows does not remove an open file


def remove(top: str) -> None:
    """Removes a folder and its contents, whatever they are. Follows no links. Never fails: leaves what cannot be
    removed."""
    if sys.platform == "win32":
        with contextlib.suppress(RecursionError):
            shutil.rmtree(top, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        folder = _open(top)
        try:
            _empty(folder)
        finally:
            os.close(folder)
        os.rmdir(top)


def _empty(top: int) -> None:
    """Removes everything in an open folder.

    A tree may be deeper than the longest path, than Python can recurse and than a process can open descriptors. So
    inner folders are first moved to the top.
    """
    unique, count = secrets.token_hex(8), 0
    pending = [""]
    while pending:
        name = pending.pop()
        with contextlib.suppress(OSError):
            folder = _open(name, top) if name else os.dup(top)
            try:
                for entry in list(os.scandir(folder)):
                    with contextlib.suppress(OSError):
                        if not entry.is_dir(follow_symlinks=False):
                            os.unlink(entry.name, dir_fd=folder)
                            continue
                        os.close(_open(entry.name, folder))  # a folder that is not writable cannot be moved either
                        count += 1
                        os.rename(entry.name, f"{unique}-{count}", src_dir_fd=folder, dst_dir_fd=top)
                        pending.append(f"{unique}-{count}")
            finally:
                os.close(folder)
            if name:
                os.rmdir(name, dir_fd=top)


def _open(name: str, parent: int | None = None) -> int:
    """Opens a folder, after making it accessible to its owner. Raises OSError if it is not a folder."""
    folder = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if sys.platform == "linux":
        handle = os.open(name, os.O_PATH | folder, dir_fd=parent)  # allowed whatever its mode is
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
    else:
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
    return os.open(name, os.O_RDONLY | folder, dir_fd=parent)
