"""Files that are written whole or not at all, and locks that end with their process."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from commandline.errors import UsageError

Content = str | bytes | Callable[[Path], None]


def write(path: Path, content: Content, *, durable: bool = False) -> None:
    """Replaces a file in one step. Creates its folder if needed.

    `content` is text, bytes, or a function that writes to the path that it is given. A `durable` file survives a power cut.
    Raises UsageError, which names the file, if it cannot be written.
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


_held: set[object] = set()  # filelock releases a lock that nothing refers to


def lock(path: Path) -> Callable[[], None] | None:
    """Locks a file until the returned function is called or this process ends. None if it is already locked.

    Raises OSError if the file cannot be created.
    """
    from filelock import FileLock, Timeout  # takes 40 ms, and most commands lock nothing

    held = FileLock(path, blocking=False, thread_local=False)
    try:
        held.acquire()
    except Timeout:
        return None
    _held.add(held)

    def release() -> None:
        _held.discard(held)
        held.release()

    return release
