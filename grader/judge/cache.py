"""Where the grader keeps what it would otherwise compute again: reference outputs, and XLA's compiled programs."""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import rmtree

from commandline.folders import cache_folder

_KEPT_PROGRAMS = 40


def folder() -> Path | None:
    """The cache folder, made if need be: GRADE_CACHE, else the user's own. None if nothing can be written there."""
    return _usable(cache_folder("GRADE_CACHE"))


@cache
def _usable(path: Path) -> Path | None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path.resolve()
    except OSError:
        return None


def programs(sources: Iterable[str]) -> Path | None:
    """A folder for the programs XLA compiles from these sources.

    A submission can write native code there, so it is shared with nothing but the very same sources.
    """
    top = folder()
    if top is None:
        return None
    path = top / "programs" / digest(sources)[:32]
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)  # nobody but us comes through here, and
        path.chmod(0o777)  # a worker that sees only the folder itself may be another user
        os.utime(path)
        for old in sorted(path.parent.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)[_KEPT_PROGRAMS:]:
            rmtree(old, ignore_errors=True)
    except OSError:
        return None
    return path


def digest(parts: Iterable[str | bytes]) -> str:
    """A hash of the parts in order; their boundaries count."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


@cache
def environment() -> str:
    """What besides sources and cases decides a reference output: versions, platform, and our own code."""
    found = []
    for package in ("jax", "jaxlib", "flax", "optax", "numpy", "orbax-checkpoint"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    ours = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return digest([*found, platform.machine(), sys.platform, *ours])
