"""Files and folders that are written whole or not at all, files that others wrote, and locks that end with their
process."""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from commandline.errors import UsageError

Content = str | bytes | Callable[[Path], None]


def write(path: Path, content: Content, *, durable: bool = False) -> None:
    """Replaces a file in one step. Creates its folder if needed.

    `content` is text, bytes, or a function that writes to the path that it is given. A `durable` file survives a power
    cut. Raises UsageError, which names the file, if it cannot be written.
    """
    try:
        replace(path, content, durable=durable)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def replace(path: Path, content: Content, *, durable: bool = False) -> None:
    """Writes a file like `write`, but raises OSError."""
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


def append(path: Path, text: str, *, durable: bool = False) -> None:
    """Adds whole lines to a file, in one write, so that two processes may do so at once.

    After a write that a full disk cut off, they begin on a new line. Raises NotRegularFileError or OSError.
    """
    if path.exists() or path.is_symlink():
        require_regular(path.lstat())
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _READ
    with os.fdopen(os.open(path, flags, 0o644), "rb+", buffering=0) as file:
        require_regular(os.fstat(file.fileno()))
        size = file.seek(0, os.SEEK_END)
        if size and file.seek(size - 1) >= 0 and file.read(1) != b"\n":
            text = f"\n{text}"
        data = text.encode("utf-8")
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if durable:
            os.fsync(file.fileno())


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder that is moved to `folder` at the end, and removed if an error is raised.

    Raises UsageError if `folder` exists and is not empty, or cannot be written.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; choose a new folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        try:
            yield unfinished
            unfinished.chmod(0o755)
            if folder.exists():
                folder.rmdir()  # Windows does not replace a folder
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from error


class NotRegularFileError(Exception):
    """The path leads to something other than a regular file. The message is the rest of a sentence that begins with the
    path."""


# A file may be replaced by a link or a pipe after it was examined. Windows has neither flag but needs O_BINARY.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path, most: int) -> bytes:
    """Returns at most `most` bytes of a file that somebody else may have made: never through a link, never from a pipe
    or a device.

    Folders above it may be links. Raises NotRegularFileError or OSError.
    """
    require_regular(path.lstat())
    with os.fdopen(os.open(path, _READ), "rb") as file:
        require_regular(os.fstat(file.fileno()))
        return file.read(most)


def why_unreadable(error: OSError | NotRegularFileError) -> str:
    """Returns the reason why `read_regular` failed: the rest of a sentence that begins with the path."""
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def why_no_text(error: OSError | UnicodeDecodeError) -> str:
    """Returns the reason why `read_text` failed: the rest of a sentence that begins with the path."""
    return f"cannot be read: {error.strerror if isinstance(error, OSError) else 'it is not UTF-8 text'}"


def require_regular(status: os.stat_result) -> None:
    """Raises NotRegularFileError unless this is the status of a regular file."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise NotRegularFileError("is a symbolic link; replace it with a copy of the file")
    if stat.S_ISDIR(mode):
        raise NotRegularFileError("is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise NotRegularFileError(f"is a {kind}; replace it with a regular file")


def private_mode(folder: Path) -> int:
    """Returns the mode of a file that only its owner may read: and the owner's group, in a folder that the owner has
    opened to it."""
    return 0o660 if folder.is_dir() and folder.stat().st_mode & stat.S_IWGRP else 0o600


_held: set[object] = set()  # filelock releases a lock that nothing refers to


def lock(path: Path, mode: int = 0o644) -> Callable[[], None] | None:
    """Locks a file until the returned function is called or this process ends. None if it is already locked.

    A new file gets this mode. Raises OSError if the file cannot be created.
    """
    from filelock import FileLock, Timeout  # takes 40 ms, and most commands lock nothing

    held = FileLock(path, mode=mode, blocking=False, thread_local=False)
    try:
        held.acquire()
    except Timeout:
        return None
    _held.add(held)

    def release() -> None:
        _held.discard(held)
        held.release()

    return release
