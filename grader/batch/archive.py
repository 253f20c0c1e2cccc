"""Reads the files of an untrusted folder or archive: regular files below a size limit. Nothing is unpacked to disk."""

import functools
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from commandline.errors import UsageError
from commandline.files import NotRegularFileError, read_regular, require_regular, why_unreadable
from commandline.text import one_line

MOST_FILES = 50_000  # of a class in a tar archive, which is read whole
MOST_BYTES = 1 << 30  # of these files together, by their declared sizes
DEEPEST = 100  # folders in one another
LARGEST = 64 << 20  # of one file, by its declared size
MOST_INNER_FILES = 10_000  # of one learner; as many in all archives that the learner submitted
MOST_INNER_BYTES = 256 << 20  # of those in archives together, by their declared sizes
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_OTHER_ARCHIVES = (".rar", ".7z", ".gz", ".xz", ".bz2", ".zst", ".tar.zst", ".lzh")  # which only other tools open
_WANTED = (".py", ".ipynb", ".zip", ".yml")  # in a tar archive, which is read once, from front to back
_JUNK = ("__MACOSX", "__pycache__")
_ENTRY = b"PK\x01\x02"  # starts each entry in the directory of a zip archive


class RefusedFileError(Exception):
    """A file cannot be accepted. The message is the rest of a sentence that begins with the file's name."""


@dataclass(frozen=True)
class File:
    """A file, by its path relative to the top folder.

    `read` returns at most the given number of bytes or raises RefusedFileError. `refused` says why the file cannot be
    read, if that is known without reading it. `size` is the size that an archive declares.
    """

    path: PurePosixPath
    read: Callable[[int], bytes]
    refused: str = ""
    size: int = 0


def files(source: Path) -> list[File]:
    """Returns all files of a folder or an archive, sorted by path. Archives inside it are not opened.

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
            listed = list(_tar_files(source, PurePosixPath()))
        else:
            raise UsageError(f"{source} is neither a folder nor a readable zip or tar archive.")
    except RefusedFileError as error:
        raise UsageError(f"{source} {error}.") from None
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    return _sorted(listed)


def is_archive(path: PurePosixPath) -> bool:
    """Returns whether a file has the name of an archive, of any kind."""
    return path.name.lower().endswith((*ARCHIVES, *_OTHER_ARCHIVES))


def without_suffix(path: PurePosixPath) -> PurePosixPath:
    """Returns the path of an archive without its suffix, such as `.tar.gz`."""
    suffix = max((one for one in ARCHIVES if path.name.lower().endswith(one)), key=len, default="")
    return path.with_name(path.name[: len(path.name) - len(suffix)] or path.name)


class Expansion:
    """Opens the zip and tar archives of one learner. The limits hold for all of them together."""

    def __init__(self) -> None:
        self._count = self._size = 0

    def files(self, file: File) -> list[File]:
        """Returns the files in an archive, which counts as a folder of its name; any other file alone. An archive in it
        is not opened.

        An archive that is damaged, or exceeds the limits, is returned as a refused file.
        """
        if file.refused or not is_archive(file.path):
            return [file]
        inside = without_suffix(file.path)
        try:
            if not file.path.name.lower().endswith(ARCHIVES):
                raise RefusedFileError(
                    "is an archive that cannot be opened here; submit a zip archive or the files themselves"
                )
            data = file.read(LARGEST + 1)
            if len(data) > LARGEST:
                raise RefusedFileError(f"is larger than {LARGEST >> 20} MiB")
            if file.path.suffix.lower() == ".zip":
                self._check(data.count(_ENTRY), 0)  # first: each entry of its directory takes half a kilobyte of memory
                inner = list(_zip_files(io.BytesIO(data), inside))
            else:
                inner = list(_tar_files(io.BytesIO(data), inside, self._check))
            size = sum(file.size for file in inner)
            self._check(len(inner), size)
        except RefusedFileError as error:
            return [File(file.path, _no_bytes, str(error))]
        except MemoryError:
            raise
        except Exception as error:  # of a hostile archive, these libraries raise any
            return [File(file.path, _no_bytes, f"is damaged: {str(error).partition(':')[0] or type(error).__name__}")]
        self._count, self._size = self._count + len(inner), self._size + size
        return _sorted(inner)

    def _check(self, count: int, size: int) -> None:
        """Raises RefusedFileError if so much more exceeds the limits."""
        _check_size(self._count + count, self._size + size, MOST_INNER_FILES, MOST_INNER_BYTES)


def _sorted(listed: Iterable[File]) -> list[File]:
    return sorted((file for file in listed if not _is_junk(file.path)), key=lambda file: file.path.parts)


def _is_junk(path: PurePosixPath) -> bool:
    return any(part.startswith(".") or part in _JUNK for part in path.parts)


def _folder_files(top: Path) -> Iterator[File]:
    """Yields the files below a folder. Not by `os.walk`, which calls itself for each level before Python 3.12."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(folder.iterdir())
        except OSError as error:
            yield _refused(top, folder, why_unreadable(error))
            continue
        for path in found:
            try:
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    require_regular(status)
                    yield File(_inside(top, path), functools.partial(_read_disk, path))
                elif len(path.relative_to(top).parts) <= DEEPEST:
                    waiting.append(path)
                else:
                    yield _refused(top, path, f"is more than {DEEPEST} folders deep")
            except (OSError, NotRegularFileError) as error:
                yield _refused(top, path, why_unreadable(error))


def _refused(top: Path, path: Path, reason: str) -> File:
    return File(_inside(top, path), _no_bytes, reason)


def _inside(top: Path, path: Path) -> PurePosixPath:
    return PurePosixPath(one_line(path.relative_to(top).as_posix()))


def _read_disk(path: Path, size: int) -> bytes:
    try:
        return read_regular(path, size)
    except (OSError, NotRegularFileError) as error:
        raise RefusedFileError(why_unreadable(error)) from None


class _OnDisk(io.RawIOBase):
    """A file to read, with a position that is this process's own: processes that fork share that of a descriptor."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._at, self._size = 0, os.fstat(self._file).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = os.pread(self._file, len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


def _zip_files(source: Path | io.BytesIO, inside: PurePosixPath) -> Iterator[File]:
    try:
        try:
            archive = zipfile.ZipFile(source if isinstance(source, io.BytesIO) else io.BufferedReader(_OnDisk(source)))
        except UnicodeDecodeError:
            archive = zipfile.ZipFile(_with_other_names(source))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, IndexError, struct.error) as error:
        raise RefusedFileError(f"is damaged: {error}") from None
    entries = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
    if isinstance(source, io.BytesIO):
        _check_size(len(entries), sum(entry.file_size for entry in entries if entry.file_size <= LARGEST))
    for entry in entries:
        path, refused = _safe_path(inside, entry.filename)
        if stat.S_ISLNK(entry.external_attr >> 16):
            refused = "is a symbolic link; submit the file itself"
        elif entry.flag_bits & 1:
            refused = "is encrypted"
        elif entry.file_size > LARGEST:
            refused = f"would be {entry.file_size >> 20:,} MiB unpacked; the limit is {LARGEST >> 20} MiB"
        read = functools.partial(_read_zip, archive, entry)
        yield File(path, read, refused, 0 if refused else entry.file_size)


def _with_other_names(source: Path | io.BytesIO) -> io.BytesIO:
    """Returns a copy of a zip archive in which names that are not UTF-8, as they claim to be, are marked as the older
    code page 437.

    Raises RefusedFileError if it is too large to copy.
    """
    if isinstance(source, Path) and source.stat().st_size > MOST_BYTES:
        raise RefusedFileError("has the name of a file that is not valid UTF-8, and is too large to be repaired")
    data = bytearray(source.read_bytes() if isinstance(source, Path) else source.getvalue())
    end = data.rfind(b"PK\x05\x06")
    size, start = struct.unpack_from("<LL", data, end + 12) if end >= 0 else (0, 0)  # of the directory
    place = end - size
    before = place - start  # bytes before the archive
    while data.startswith(_ENTRY, place):
        name, extra, comment = struct.unpack_from("<HHH", data, place + 28)
        (header,) = struct.unpack_from("<L", data, place + 42)
        try:
            data[place + 46 : place + 46 + name].decode()
        except UnicodeDecodeError:
            data[place + 9] &= ~0x08
            data[before + header + 7] &= ~0x08
        place += 46 + name + extra + comment
    return io.BytesIO(data)


def _read_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> bytes:
    try:
        with archive.open(entry) as file:
            return file.read(size)
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        NotImplementedError,
        OSError,
        EOFError,
        ValueError,
    ) as error:
        raise RefusedFileError(f"is damaged: {error}") from None


def _tar_files(
    source: Path | io.BytesIO, inside: PurePosixPath, check: Callable[[int, int], None] | None = None
) -> Iterator[File]:
    check = check or _check_size
    count = total = 0
    name, file_object = (source, None) if isinstance(source, Path) else (None, source)
    with tarfile.open(name, fileobj=file_object) as archive:
        for entry in archive:
            count, total = count + 1, total + entry.size
            check(count, total)  # first: the search for the next entry reads all bytes of this one
            if entry.isdir():
                continue
            path, refused = _safe_path(inside, entry.name)
            if not entry.isreg():
                yield File(path, _no_bytes, refused or "is not a regular file; submit the file itself")
                continue
            if entry.size > LARGEST:
                refused = f"would be {entry.size >> 20:,} MiB unpacked; the limit is {LARGEST >> 20} MiB"
            file = archive.extractfile(entry) if path.suffix.lower() in _WANTED and not refused else None
            data = file.read(LARGEST) if file else b""
            yield File(path, lambda size, data=data: data[:size], refused, len(data))  # type: ignore[misc]


def _check_size(count: int, size: int, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
    if count > most_files or size > most_bytes:
        raise RefusedFileError(
            f"is too large: {count:,} files with {size >> 20:,} MiB; "
            f"the limits are {most_files:,} files and {most_bytes >> 20:,} MiB"
        )


def _safe_path(inside: PurePosixPath, name: str) -> tuple[PurePosixPath, str]:
    """Returns the path of an archive's file without parts that lead out of the archive, and why the file is refused if
    it had any."""
    parts = PurePosixPath(one_line(name.replace("\\", "/"))).parts
    if ".." in parts or (parts and parts[0].endswith(("/", ":"))):
        safe = [part for part in parts if part != ".." and not part.endswith(("/", ":"))]
        return inside.joinpath(*safe or "-"), "has a path that leads out of the archive"
    return inside.joinpath(*parts or "-"), ""


def _no_bytes(size: int) -> bytes:
    return b""
