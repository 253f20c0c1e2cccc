"""The cache of the outputs of references and witnesses, by a hash of everything that decides them. Only judges read and
write it."""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from commandline import files
from commandline.folders import cache_folder
from grader.isolation.sandbox import FLAX_MODES
from grader.paths import ROOT
from grader.wire.channel import ChannelError, Frame, decode, encode

_PACKAGES = (
    "flax",
    "grain",
    "hypothesis",
    "jax",
    "jaxlib",
    "numpy",
    "optax",
    "orbax-checkpoint",
    "regex",
    "safetensors",
    "tiktoken",
)
MOST_BYTES = 1 << 30
TRIM_SECONDS = 600.0
_OWN_PACKAGES = ("commandline", "grader", "harness")


def folder() -> Path | None:
    """Returns the cache folder, created if needed: GRADE_CACHE, or a folder in the user's cache. None if it cannot be
    written."""
    return _usable(cache_folder("GRADE_CACHE"))


@cache
def _usable(path: Path) -> Path | None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path.resolve()
    except OSError:
        return None


def digest(parts: Iterable[str | bytes]) -> str:
    """Returns a hash of the parts in order, including where each one ends."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def versions() -> list[str]:
    """Returns the packages that decide the output of a program, each with its version."""
    found = []
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return found


@cache
def environment() -> str:
    """Returns a hash of what decides the output of a program: versions, Flax's mode, platform, the course's own
    code."""
    modes = [f"{name}={os.environ.get(name)}" for name in FLAX_MODES]
    return digest([*versions(), *modes, platform.machine(), sys.platform, *own_code(ROOT)])


def own_code(root: Path) -> Iterable[bytes]:
    """Yields the path and the content of every file of the grader, the harness and their common packages, in order."""
    for package in _OWN_PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                yield path.relative_to(root).as_posix().encode()
                yield path.read_bytes()


def read(key: str) -> Frame | None:
    """Returns the frame stored under `key`; None if there is none or its file is corrupt."""
    path = _path(key)
    if path is None:
        return None
    try:
        data = path.read_bytes()
        if data[:32] != hashlib.sha256(data[32:]).digest():
            return None
        header = int.from_bytes(data[32:36], "big")
        return decode(data[44 : 44 + header], data[44 + header :])
    except (OSError, ChannelError):
        return None


def write(key: str, frame: Frame) -> None:
    """Stores a frame under `key`. Does nothing on a full or read-only disk: the cache only saves time."""
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError, ChannelError):
        data = encode(frame)
        _trim(path.parent.parent)
        files.replace(path, hashlib.sha256(data).digest() + data)


def has(key: str) -> bool:
    """Returns whether there is an entry under `key`."""
    path = _path(key)
    return path is not None and path.exists()


def claim(key: str) -> Callable[[], None] | None:
    """Claims an entry, so that other processes know that this one computes it, until the returned function is called or
    this process ends.

    Returns None if another process has claimed it. Without a cache, all processes compute everything.
    """
    path = _path(key)
    if path is None:
        return lambda: None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        release = files.lock(path.with_suffix(".lock"))
    except (OSError, NotImplementedError):  # a disk that cannot be written, or without locks
        return lambda: None
    if release is None:
        return None

    def end() -> None:
        path.with_suffix(".lock").unlink(missing_ok=True)
        release()

    return end


@cache
def _trim(top: Path) -> None:
    """Removes the oldest entries if there are more than MOST_BYTES.

    At most once in a process, and once in TRIM_SECONDS on a machine, because it looks at every file.
    """
    stamp = top / "trimmed"
    with contextlib.suppress(FileNotFoundError):
        if time.time() - stamp.stat().st_mtime < TRIM_SECONDS:
            return
    top.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    entries = sorted(_entries(top), reverse=True)
    kept = 0
    for _, size, path in entries if sum(size for _, size, _ in entries) > MOST_BYTES else []:
        kept += size
        if kept > MOST_BYTES // 2:
            Path(path).unlink(missing_ok=True)


def _entries(top: Path) -> Iterator[tuple[float, int, str]]:
    """Yields when each file was written, its bytes and its path. Other processes may remove files meanwhile."""
    for folder in top.glob("??"):
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as files_of_folder:
            for each in files_of_folder:
                with contextlib.suppress(FileNotFoundError):
                    status = each.stat()
                    yield status.st_mtime, status.st_size, each.path


def _path(key: str) -> Path | None:
    top = folder()
    return top / "references" / key[:2] / key if top else None
