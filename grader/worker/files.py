"""Folders of files as named arrays of bytes, on their way from one process to another."""

import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np

from grader.wire.compare import Leaf
from grader.wire.program import FILE
from grader.worker.pytrees import BadOutputError

MOST_FILES, MOST_BYTES = 2000, 32 << 20
_numbers = itertools.count()
_made: list[Path] = []


def new_folder() -> Path:
    """Returns a new folder in the scratch folder, until the next request."""
    folder = Path.cwd() / f"folder-{next(_numbers)}"
    folder.mkdir()
    _made.append(folder)
    return folder


def remove_folders() -> None:
    """Removes all folders that `new_folder` made: a process that answers many requests would fill the memory with
    them."""
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


def packed(top: Path) -> list[Leaf]:
    """Returns a file, or all files below a folder, as leaves. Files beside it are not included.

    Raises BadOutputError if they are too many or too large.
    """
    leaves: list[Leaf] = []
    size = 0
    for path in [top, *sorted(top.rglob("*"))]:
        if path.is_symlink() or not path.is_file():
            continue
        size += path.stat().st_size
        if size > MOST_BYTES or len(leaves) == MOST_FILES:
            raise BadOutputError(f"it saved more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
        name = path.relative_to(top.parent).as_posix()
        leaves.append(Leaf(FILE + name, "uint8", np.frombuffer(path.read_bytes(), np.uint8)))
    return leaves


def unpacked(leaves: Iterable[Leaf]) -> Path | None:
    """Returns a new folder that contains the files among these leaves; None if there are none. Raises
    BadOutputError."""
    files = [(PurePosixPath(leaf.path.removeprefix(FILE)), leaf) for leaf in leaves if leaf.path.startswith(FILE)]
    if not files:
        return None
    folder = new_folder()
    for name, leaf in files:
        if name.is_absolute() or ".." in name.parts:
            raise BadOutputError("it saved a file outside its folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(leaf.values.tobytes())
    return folder
