"""Reads the files of an untrusted folder or archive: regular files below a size limit. Nothing is unpacked to disk."""

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
from commandline.files import NotRegularFileError, read_regular, require_regular, why_unreadable

MOST_FILES = 50_000
MOST_BYTES = 1 << 30  # of all files together, by their declared sizes
LARGEST = 16 << 20  # of one file, by its declared size
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_WANTED = (".py", ".ipynb", ".zip", ".yml")  # in a tar archive, which is read once, from front to back
_JUNK = ("__MACOSX", "__pycache__")


class RefusedFileError(Exception):
    """A file cannot be accepted. The message is the rest of a sentence that begins with the file's name."""


@dataclass(frozen=True)
class File:
    """A file, by its path relative to the top folder.

    `read` returns at most the given number of bytes or raises RefusedFileError. `refused` says why the file cannot be read, if
    that is known without reading it.
    """

    path: PurePosixPath
    read: Callable[[int], bytes]
    refused: str = ""


def files(source: Path) -> list[File]:
    """All files of a folder or an archive, sorted by path. A zip archive inside it counts as a folder of that name.

    Raises UsageError if the source does not exist or cannot be read at all.
    """
    try:
        if source.is_dir():
            listed = list(_folder_files(source))
        elif not source.exists():
            raise UsageError(f"There is no folder or archive {source}.")
        elif not source.is_file():
            raise UsageError(f"{source} is neither a folder nor a file.")
        elif zipfile.is_zipfile(source):
            listed = list(_zip_files(source, PurePosixPath()))
        elif source.name.lower().endswith(ARCHIVES[1:]):
            listed = list(_tar_files(source))
        else:
            raise UsageError(f"{source} is neither a folder nor a readable zip or tar archive.")
    except RefusedFileError as error:
        raise UsageError(f"{source} {error}.") from None
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    expanded = [inner for file in listed for inner in _expanded(file)]
    return sorted((file for file in expanded if not _is_junk(file.path)), key=lambda file: file.path.parts)


def _is_junk(path: PurePosixPath) -> bool:
    return any(part.startswith(".") or part in _JUNK for part in path.parts)


def _folder_files(top: Path) -> Iterator[File]:
    for folder, subfolders, names in os.walk(top):
        for name in sorted([*names, *(name for name in subfolders if os.path.islink(os.path.join(folder, name)))]):
            path = Path(folder, name)
            inside = PurePosixPath(path.relative_to(top).as_posix())
            try:
                require_regular(path.lstat())
            except NotRegularFileError as error:
                yield File(inside, _no_bytes, str(error))
            else:
                yield File(inside, lambda size, path=path: _read_disk(path, size))  # type: ignore[misc]


def _read_disk(path: Path, size: int) -> bytes:
    try:
        return read_regular(path, size)
    except (OSError, NotRegularFileError) as error:
        raise RefusedFileError(why_unreadable(error)) from None


def _zip_files(source: Path | io.BytesIO, inside: PurePosixPath) -> Iterator[File]:
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise RefusedFileError(f"is damaged: {error}") from None
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    _check_size(len(entries), sum(entry.file_size for entry in entries if entry.file_size <= LARGEST))
    for entry in entries:
        path, refused = _safe_path(inside, entry.filename)
        if stat.S_ISLNK(entry.external_attr >> 16):
            refused = "is a symbolic link; submit the file itself"
        elif entry.flag_bits & 1:
            refused = "is encrypted"
        elif entry.file_size > LARGEST:
            refused = f"would be {entry.file_size >> 20:,} MiB unpacked; the limit is {LARGEST >> 20} MiB"
        yield File(path, lambda size, entry=entry: _read_zip(archive, entry, size), refused)  # type: ignore[misc]


def _read_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> bytes:
    try:
        with archive.open(entry) as file:
            return file.read(size)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise RefusedFileError(f"is damaged: {error}") from None


def _tar_files(source: Path) -> Iterator[File]:
    count = total = 0
    with tarfile.open(source) as archive:
        for entry in archive:
            count, total = count + 1, total + entry.size
            _check_size(count, total)  # first: the search for the next entry reads all bytes of this one
            if entry.isdir():
                continue
            path, refused = _safe_path(PurePosixPath(), entry.name)
            if not entry.isreg():
                yield File(path, _no_bytes, refused or "is not a regular file; submit the file itself")
                continue
            if entry.size > LARGEST:
                refused = f"would be {entry.size >> 20:,} MiB unpacked; the limit is {LARGEST >> 20} MiB"
            file = archive.extractfile(entry) if path.suffix.lower() in _WANTED and not refused else None
            data = file.read(LARGEST) if file else b""
            yield File(path, lambda size, data=data: data[:size], refused)  # type: ignore[misc]


def _check_size(count: int, size: int) -> None:
    if count > MOST_FILES or size > MOST_BYTES:
        raise RefusedFileError(
            f"is too large: {count:,} files with {size >> 20:,} MiB; "
            f"the limits are {MOST_FILES:,} files and {MOST_BYTES >> 20:,} MiB"
        )


def _safe_path(inside: PurePosixPath, name: str) -> tuple[PurePosixPath, str]:
    """The path of an archive's file without parts that lead out of the archive, and why the file is refused if it had any."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or (parts and parts[0].endswith(("/", ":"))):
        safe = [part for part in parts if part != ".." and not part.endswith(("/", ":"))]
        return inside.joinpath(*safe), "has a path that leads out of the archive"
    return inside.joinpath(*parts), ""


def _expanded(file: File) -> Iterator[File]:
    """The file itself, or the files in it if it is a zip archive."""
    if file.refused or file.path.suffix.lower() != ".zip":
        yield file
        return
    try:
        data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise RefusedFileError(f"is larger than {LARGEST >> 20} MiB")
        inner = list(_zip_files(io.BytesIO(data), file.path.with_suffix("")))
    except RefusedFileError as error:
        yield File(file.path, _no_bytes, str(error))
        return
    yield from inner


def _no_bytes(size: int) -> bytes:
    return b""
