"""Files of text: found by path, folder, glob or URL, and opened by what their names and their first bytes say they
are."""

import hashlib
import importlib.util
import io
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from commandline import invocation
from harness.errors import UsageError

# Formats by the last suffix of a name. Text has any other suffix; in a folder, only files with one of these are data.
FORMATS = {
    ".txt": "text", ".text": "text", ".md": "text",
    ".json": "JSON", ".jsonl": "JSON", ".ndjson": "JSON",
    ".csv": "CSV", ".tsv": "CSV", ".tab": "CSV",
    ".parquet": "Parquet", ".pq": "Parquet",
}  # fmt: skip
RENAME = {"JSON": ".jsonl", "CSV": ".csv", "Parquet": ".parquet", "gzip": ".gz", "Zstandard": ".zst"}
COMPRESSED = {".gz": "gzip", ".zst": "Zstandard"}
# What files begin with that are not text, by the name of their format
_MAGIC = {
    b"PAR1": "Parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "Zstandard", b"PK\x03\x04": "a zip archive",
    b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a rar archive", b"%PDF": "PDF",
    b"{\\rtf": "RTF", b"ARROW1": "Arrow", b"\x93NUMPY": "a NumPy array", b"SQLite format 3": "an SQLite database",
    b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"\x89HDF": "HDF5", b"\x7fELF": "a program",
}  # fmt: skip
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON_BEGINS = re.compile(rb'\s*(\[\s*)?(\{\s*("[^"\n]*"\s*:|\})|\["|\[\s*\])')
_HTML_BEGINS = re.compile(rb"\s*<(!doctype html|html|head|body)\b", re.IGNORECASE)
_MOST_IGNORED = 3  # names of ignored files in the note on them


class Found(NamedTuple):
    """The files that a path, a folder, a glob or a URL names, in order, and a note on what else is there."""

    files: tuple["DataFile", ...]
    note: str = ""


@dataclass(frozen=True)
class DataFile:
    """One file, on this machine or elsewhere. `fs` is its fsspec file system, and `shown` what the user calls it."""

    fs: Any
    path: str
    shown: str
    size: int  # bytes, as stored

    @property
    def name(self) -> str:
        """The last part of the path."""
        return _last_part(self.path)

    @property
    def suffixes(self) -> tuple[str, str]:
        """The suffix of the format, and that of the compression; either may be empty."""
        stem, compression = self.name.lower(), ""
        for suffix in COMPRESSED:
            if stem.endswith(suffix):
                stem, compression = stem.removesuffix(suffix), suffix
        _, dot, suffix = stem.lstrip(".").rpartition(".")
        return dot + suffix if dot else "", compression

    def digest(self) -> str:
        """A digest that changes with the content. Of a file elsewhere, by what its store says of it: it is read only
        once."""
        if not is_local(self.fs):
            return str(self.fs.ukey(self.path))
        with self.fs.open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def open(self) -> Any:
        """The stored bytes."""
        return self.fs.open(self.path, "rb")

    def decompressed(self, stored: Any) -> io.BufferedReader:
        """A stream of the content, given one of the stored bytes. Raises UsageError if the suffix is not what the bytes
        are."""
        _, compression = self.suffixes
        if not compression:
            return stored
        kind = COMPRESSED[compression]
        head = stored.read(4)
        stored.seek(0)
        if _magic(head) != kind:
            raise UsageError(f"{self.shown} is not compressed with {kind}. Rename it without {compression}.")
        if compression == ".gz":
            import gzip

            return io.BufferedReader(gzip.GzipFile(fileobj=stored), 1 << 20)
        require_pyarrow(self.shown, "Zstandard")
        import pyarrow as pa

        return io.BufferedReader(_Raw(pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd")))

    def format(self, head: bytes, field: str) -> str:
        """`text`, `JSON`, `CSV` or `Parquet`: by the suffix, or without one, by the first bytes of the content.

        Raises UsageError if the content looks like another format than the suffix says.
        """
        suffix, compression = self.suffixes
        looks, named = looks_like(head, field), FORMATS.get(suffix, "text")
        if not suffix and looks in FORMATS.values():
            return looks
        if (
            named == "JSON"
            and looks == "text"
            and head.strip()
            and not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b'"')
        ):
            raise UsageError(
                f"{self.shown} is not JSON: it begins with {_beginning(head)}. If it is text, rename it to .txt."
            )
        if looks == "HTML":
            looks = "HTML" if suffix in (".txt", ".text") else "text"
        if looks == "UTF-16":
            raise UsageError(f"{self.shown} is UTF-16 or binary, not UTF-8. Save it as UTF-8.")
        if looks in (named, "text"):
            return named
        if looks in RENAME:
            advice = (
                f"Rename it to {RENAME[looks]}" if looks in FORMATS.values() else f"Add {RENAME[looks]} to its name"
            )
            advice = "Decompress it first" if compression and looks in COMPRESSED.values() else advice
        elif looks == "HTML":
            advice = "Extract its text first, or rename it to .html to train on its tags"
        else:
            advice = "Extract its text first"
        read_as = {"text": "text"}.get(named, f"{named}, as {suffix} says")
        raise UsageError(f"{self.shown} looks like {looks} and would be read as {read_as}. {advice}.")


class _Raw(io.RawIOBase):
    """A stream of pyarrow as one of Python's: its own keeps no state that `io.BufferedReader` needs."""

    def __init__(self, stream: Any):
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except ValueError as error:  # pyarrow's
            raise OSError(str(error).splitlines()[0]) from error
        buffer[: len(data)] = data
        return len(data)


def looks_like(head: bytes, field: str) -> str:
    """The format that a file with this beginning seems to have; `text` if nothing else."""
    if known := _magic(head):
        return known
    if head.startswith(_UTF16) or head[:4096].count(0) > len(head[:4096]) // 8:
        return "UTF-16"
    content = head.removeprefix(b"\xef\xbb\xbf")
    if _JSON_BEGINS.match(content):
        return "JSON"
    if _HTML_BEGINS.match(content):
        return "HTML"
    first = content.partition(b"\n")[0].decode("utf-8", "replace").strip()
    for delimiter in (",", ";", "\t"):
        names = [name.strip(' "') for name in first.split(delimiter)]
        if len(names) > 1 and field in names and all(re.fullmatch(r"[\w .:/-]{0,40}", name) for name in names):
            return "CSV"
    return "text"


def _magic(head: bytes) -> str:
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def _beginning(head: bytes) -> str:
    return repr(head.lstrip()[:20].decode("utf-8", "replace").split("\n")[0])


def is_local(fs: Any) -> bool:
    """Whether files of this file system are on this machine."""
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def find(spec: str) -> Found:
    """The files that `spec` names. Raises UsageError if there are none, or if a package for its URL is missing."""
    fs, path = _file_system(spec)
    try:
        return _found(fs, path, spec)
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{spec} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # of the clients of stores, each with errors of its own
        if is_local(fs):
            raise
        raise UsageError(f"{spec} cannot be read: {type(error).__name__}: {str(error)[:200]}.") from error


def _found(fs: Any, path: str, spec: str) -> Found:
    if fs.isfile(path):
        return Found((_data_file(fs, path, spec),))
    if fs.isdir(path):
        return _in_folder(fs, path, spec)
    if any(character in spec for character in "*?["):
        return _matching(fs, path, spec)
    raise UsageError(
        f"There is no file {spec}. --data takes pocket, pocket:N, tinystories, or a text, JSON, CSV or Parquet file, a "
        "folder of them, a pattern such as 'texts/*.txt', or a URL such as s3://bucket/texts."
    )


def _in_folder(fs: Any, path: str, spec: str) -> Found:
    """Finds the data files below the folder `path`, but no hidden ones. Raises UsageError if there are none."""
    every = sorted(name for name in fs.find(path) if not _hidden(name.removeprefix(path)))
    data = [file for file in (_data_file(fs, name, _below(name, path, spec)) for name in every) if _is_data(file)]
    if not data:
        kinds = ", ".join(FORMATS)
        raise UsageError(
            f"The folder {spec} has no files of text: their names end in {kinds}, or these with .gz or .zst."
        )
    others = [_below(name, path, spec) for name in every if name not in {file.path for file in data}]
    return Found(tuple(data), _note_on(others, spec) if others else "")


def _note_on(others: list[str], spec: str) -> str:
    """Writes the note on `others`, the files of the folder `spec` that are no data."""
    more = f" and {len(others) - _MOST_IGNORED} more" if len(others) > _MOST_IGNORED else ""
    return f"Files of {spec} that are not text were left out: {', '.join(others[:_MOST_IGNORED])}{more}."


def _matching(fs: Any, path: str, spec: str) -> Found:
    """Finds the files that match `path`, a pattern: hidden ones only if it says so. Raises UsageError if none does."""
    matches = sorted(name for name in fs.glob(path) if fs.isfile(name))
    if not _last_part(path).startswith("."):
        matches = [name for name in matches if not _last_part(name).startswith(".")]
    if not matches:
        raise UsageError(f"No file matches {spec}.")
    shown = (name if is_local(fs) else fs.unstrip_protocol(name) for name in matches)
    return Found(tuple(_data_file(fs, name, each) for name, each in zip(matches, shown, strict=True)))


def _file_system(spec: str) -> tuple[Any, str]:
    import fsspec  # type: ignore[import-untyped]  # slow to import

    try:
        fs, path = fsspec.url_to_fs(spec)
    except ImportError as error:
        package = re.search(r"[Ii]nstall [`'\"]?([\w-]+)", str(error))
        how = f"run `{invocation.install(package[1])}`" if package else str(error)
        raise UsageError(f"--data {spec} needs a package for this kind of URL: {how}.") from error
    except ValueError as error:
        raise UsageError(f"--data {spec} is not valid: {error}.") from error
    return fs, path


def _data_file(fs: Any, path: str, shown: str) -> DataFile:
    return DataFile(fs, path, shown, int(fs.size(path) or 0))


def _is_data(file: DataFile) -> bool:
    return file.suffixes[0] in FORMATS


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/") if part)


def _last_part(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _below(name: str, folder: str, spec: str) -> str:
    return f"{spec.rstrip('/')}/{name.removeprefix(folder).lstrip('/')}"


def require_pyarrow(spec: str, kind: str) -> None:
    """Raises UsageError if the library that reads Parquet and Zstandard is missing. It takes 176 MB, so it is an
    extra."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(f"--data {spec} needs a library for {kind}: run `{invocation.install('pyarrow')}`.")
