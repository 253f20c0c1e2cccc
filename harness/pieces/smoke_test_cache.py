"""Smoke tests that need not run again: those of the same files, with the same code and packages, on the same devices.

This is no proof: a piece may read other files or the clock. An error that a smoke test would have found is then found
in the run.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

import jax

import harness
from commandline import files
from commandline.folders import cache_folder

Sources = dict[str, bytes]  # by the path in the workspace

MOST = 100  # entries, of which each has a few bytes
_CODE = Path(harness.__file__).parent
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy")
_SETTINGS = ("JAX_", "XLA_", "NNX_", "FLAX_")  # how the names of variables that change a computation begin


def sources(folder: Path) -> Sources:
    """The programs in a workspace, and what else of it has been imported."""
    inside = folder.absolute()
    origins = [getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]]
    # An environment in the workspace contains packages, whose versions count.
    own = {
        Path(origin) for origin in origins if origin.startswith(f"{inside}{os.sep}") and "site-packages" not in origin
    }
    return {str(file.relative_to(inside)): file.read_bytes() for file in sorted({*inside.glob("*.py"), *own})}


def key(workspace: Sources) -> str:
    """A name for all that the results depend on."""
    parts: list[object] = [sys.version, *map(version, _PACKAGES)]
    parts += [jax.device_count(), jax.devices()[0].device_kind]
    parts += sorted(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
    parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(_CODE.rglob("*.py"))]
    parts += [(name, hashlib.sha256(text).hexdigest()) for name, text in sorted(workspace.items())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def recall(name: str, pieces: Collection[str]) -> list[str] | None:
    """The stubs among the pieces, if all others have passed their smoke tests; None if that is not known."""
    try:
        stubs = json.loads((_folder() / name).read_bytes())
    except (OSError, ValueError):
        return None
    is_valid = isinstance(stubs, list) and all(isinstance(stub, str) and stub in pieces for stub in stubs)
    return stubs if is_valid else None


def remember(name: str, stubs: list[str]) -> None:
    """Keeps the result for later commands. Does nothing where the cache cannot be written."""
    with contextlib.suppress(OSError):
        files.replace(_folder() / name, json.dumps(stubs))
        by_age = sorted(_folder().iterdir(), key=lambda entry: entry.stat().st_mtime)
        for entry in by_age[:-MOST]:
            entry.unlink(missing_ok=True)


def _folder() -> Path:
    return cache_folder("HARNESS_CACHE", "harness") / "pieces"
