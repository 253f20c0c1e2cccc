"""The cache folder, the folders of compiled programs in it, and the hashes that its keys are made of."""

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

from commandline import files
from commandline.folders import cache_folder
from grader.paths import ROOT

_KEPT_PROGRAMS = 40  # folders of compiled programs
_PACKAGES = (
    "flax", "grain", "hypothesis", "jax", "jaxlib", "numpy", "optax", "orbax-checkpoint", "regex", "safetensors", "tiktoken",
)  # fmt: skip
_OWN_PACKAGES = ("commandline", "grader", "harness")


def folder() -> Path | None:
    """The cache folder, created if needed: GRADE_CACHE, or a folder in the user's cache. None if it cannot be written."""
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
    """The folder for the programs that XLA compiles from these sources. None if there is no cache folder.

    A submission can write native code there, so no other sources share the folder. Removes the least recently used folders,
    except those in use by a worker.
    """
    top = folder()
    if top is None:
        return None
    path = top / "programs" / digest(sources)[:32]
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)  # keeps other users out
        path.chmod(0o777)  # a worker may run as another user; it is given this folder alone
        os.utime(path)
        folders = [other for other in path.parent.iterdir() if other.is_dir()]
        for old in sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True)[_KEPT_PROGRAMS:]:
            if not files.in_use(old):
                rmtree(old, ignore_errors=True)
    except OSError:
        return None
    return path


def digest(parts: Iterable[str | bytes]) -> str:
    """A hash of the parts in order, including where each one ends."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


@cache
def environment() -> str:
    """A hash of the versions, the platform and the course's own code: they decide a verdict beside sources and cases."""
    versions = []
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return digest([*versions, platform.machine(), sys.platform, *own_code(ROOT)])


def own_code(root: Path) -> Iterable[bytes]:
    """The path and the content of every file of the grader, the harness and what they share, in order."""
    for package in _OWN_PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                yield path.relative_to(root).as_posix().encode()
                yield path.read_bytes()
