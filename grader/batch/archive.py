"""The files of a folder or an archive that nobody vouches for: only regular ones, only of a sane size, nothing is unpacked."""

import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from commandline.errors import UsageError

MOST_FILES = 50_000
MOST_BYTES = 1 << 30  # of all files together, as an archive declares them
LARGEST = 16 << 20  # one file, as it is declared
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_WANTED = (".py", ".ipynb", ".zip", ".yml")  # of a tar archive, which can be read only once, from the front
_JUNK = ("__MACOSX", "__pycache__")
# A file may have become a link, or a pipe, since it was looked at. Windows has neither flag, and asks for one of its own.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class RefusedFileError(Exception):
    """A file that is not read; the message says why."""


@dataclass(frozen=True)
class File:
    """A file by its path from the top. `read` returns at most that many bytes or raises RefusedFileError. If it is known from the
    start that a file cannot be read, `refused` says why."""

    path: PurePosixPath
    read: Callable[[int], bytes]
    refused: str = ""


def files(source: Path) -> list[File]:
    """All files of a folder or an archive, sorted by path. An archive inside of it stands for a folder of that name.

    Raises UsageError if there is no such thing, or it cannot be read at all.
    """
    try:
        if source.is_dir():
            found = list(_of_folder(source))
        elif not source.exists():
            raise UsageError(f"There is no folder or archive {source}.")
        elif zipfile.is_zipfile(source):
            found = list(_of_zip(source, PurePosixPath()))
        elif source.name.lower().endswith(ARCHIVES[1:]):
            found = list(_of_tar(source))
        else:
            raise UsageError(f"{source} is neither a folder nor a zip or tar archive that can be read.")
    except RefusedFileError as error:
        raise UsageError(f"{source} {error}") from None
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    unnested = [inner for file in found for inner in _unnested(file)]
    return sorted((file for file in unnested if not _is_junk(file.path)), key=lambda file: file.path.parts)


def _is_junk(path: PurePosixPath) -> bool:
    return any(part.startswith(".") or part in _JUNK for part in path.parts)


def _of_folder(top: Path) -> Iterator[File]:
    for folder, inner, names in os.walk(top):
        for name in sorted([*names, *(name for name in inner if os.path.islink(os.path.join(folder, name)))]):
            path = Path(folder, name)
            place = PurePosixPath(path.relative_to(top).as_posix())
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                yield File(place, _nothing, "is a symbolic link; hand in the file itself")
            elif not stat.S_ISREG(mode):
                yield File(place, _nothing, "is no regular file")
            else:
                yield File(place, lambda size, path=path: _from_disk(path, size))  # type: ignore[misc]


def _from_disk(path: Path, size: int) -> bytes:
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            return file.read(size)
    except OSError as error:
        raise RefusedFileError(f"cannot be read: {error.strerror}") from None


def _of_zip(source: Path | io.BytesIO, inside: PurePosixPath) -> Iterator[File]:
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise RefusedFileError(f"is damaged: {error}") from None
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    _check_size(len(entries), sum(entry.file_size for entry in entries if entry.file_size <= LARGEST))
    for entry in entries:
        place, refused = _place(inside, entry.filename)
        if stat.S_ISLNK(entry.external_attr >> 16):
            refused = "is a symbolic link; hand in the file itself"
        elif entry.flag_bits & 1:
            refused = "is encrypted"
        elif entry.file_size > LARGEST:
            refused = f"would be {entry.file_size >> 20:,} MiB when unpacked"
        yield File(place, lambda size, entry=entry: _from_zip(archive, entry, size), refused)  # type: ignore[misc]


def _from_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> bytes:
    try:
        with archive.open(entry) as file:
            return file.read(size)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise RefusedFileError(f"is damaged: {error}") from None


def _of_tar(source: Path) -> Iterator[File]:
    count = total = 0
    with tarfile.open(source) as archive:
        for entry in archive:
            count, total = count + 1, total + entry.size
            _check_size(count, total)  # before the next one is looked for, behind all these bytes
            if entry.isdir():
                continue
            place, refused = _place(PurePosixPath(), entry.name)
            if not entry.isreg():
                yield File(place, _nothing, refused or "is no regular file; hand in the file itself")
                continue
            if entry.size > LARGEST:
                refused = f"would be {entry.size >> 20:,} MiB when unpacked"
            file = archive.extractfile(entry) if place.suffix.lower() in _WANTED and not refused else None
            data = file.read(LARGEST) if file else b""
            yield File(place, lambda size, data=data: data[:size], refused)  # type: ignore[misc]


def _check_size(count: int, size: int) -> None:
    if count > MOST_FILES or size > MOST_BYTES:
        raise RefusedFileError(f"is too large: {count:,} files with {size >> 20:,} MiB")


def _place(inside: PurePosixPath, name: str) -> tuple[PurePosixPath, str]:
    """Where an archive's file stands, and why it is refused if its name leads out of it."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or (parts and parts[0].endswith(("/", ":"))):
        safe = [part for part in parts if part != ".." and not part.endswith(("/", ":"))]
        return inside.joinpath(*safe), "has a path that leads out of the archive"
    return inside.joinpath(*parts), ""


def _unnested(file: File) -> Iterator[File]:
    """The file, or what is in it if it is a zip archive."""
    if file.refused or file.path.suffix.lower() != ".zip":
        yield file
        return
    try:
        data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise RefusedFileError(f"is larger than {LARGEST >> 20} MiB")
        inner = list(_of_zip(io.BytesIO(data), file.path.with_suffix("")))
    except RefusedFileError as error:
        yield File(file.path, _nothing, str(error))
        return
    yield from inner


def _nothing(size: int) -> bytes:
    return b""
