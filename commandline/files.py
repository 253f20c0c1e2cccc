"""Files written whole or not at all, and locks that end with their process."""

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from commandline.errors import UsageError

Content = str | bytes | Callable[[Path], None]


def write(path: Path, content: Content, *, durable: bool = False) -> None:
    """Replaces a file in one step, and makes its folder if need be.

    `content` is text, bytes, or a function that writes the file at the path it is given. A `durable` file survives a power
    cut. Raises UsageError, naming the file, if it cannot be written.
    """
    try:
        replace(path, content, durable=durable)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def replace(path: Path, content: Content, *, durable: bool = False) -> None:
    """Like `write`, but raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    os.close(handle)
    temporary = Path(name)
    try:
        if callable(content):
            content(temporary)
        elif isinstance(content, str):
            temporary.write_text(content, encoding="utf-8", newline="")
        else:
            temporary.write_bytes(content)
        if durable:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def lock(path: Path) -> BaseFileLock | None:
    """The lock that a file stands for, held until `release()` or the end of this process; None if another holds it.

    Raises OSError if the file cannot be made.
    """
    held = FileLock(path, blocking=False, thread_local=False)
    try:
        held.acquire()
    except Timeout:
        return None
    return held


_MARK = ".in-use-"
_marks = itertools.count()


def mark_in_use(folder: Path) -> Callable[[], None]:
    """Marks a folder as in use, for `in_use`, until the returned function is called or this process ends."""
    mark = folder.with_name(f"{folder.name}{_MARK}{os.getpid()}-{next(_marks)}")
    try:
        held = lock(mark)
    except OSError:  # a full or read-only disk: nothing is evicted from there either
        held = None

    def release() -> None:
        if held:
            mark.unlink(missing_ok=True)
            held.release()

    return release


def in_use(folder: Path) -> bool:
    """Whether a process has marked the folder. Removes the marks of processes that are gone."""
    used = False
    for mark in folder.parent.glob(f"{folder.name}{_MARK}*"):
        with contextlib.suppress(OSError):
            held = lock(mark)
            if held is None:
                used = True
            else:
                mark.unlink()
                held.release()
    return used
