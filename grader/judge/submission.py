"""A learner's file: its text, and the course modules that it imports from the same folder."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog, imports, selection
from grader.isolation.job import Job, Limits
from grader.judge import notebook
from grader.problem import Problem

MAX_SIZE = 1 << 20
MAX_NOTEBOOK = 64 << 20  # with outputs; `notebook` limits the rest
# PEP 263: a comment in the first two lines. Of all encodings, only those of old editors.
_DECLARED = re.compile(
    rb"(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(latin-?1|iso-8859-15?|cp1252)\b", re.IGNORECASE
)
# The mark that begins a file in UTF-16, or two characters of English.
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}")


class UnreadableSubmissionError(Exception):
    """The file exists but is not Python text; the message says why. It becomes a verdict, not a usage error."""


@dataclass(frozen=True)
class Submission:
    """The texts of a file and of the course modules that it imports, by module name.

    `filename` is the file's name in reports, and `notes` say how it was read.
    """

    filename: str
    sources: Mapping[str, str]
    notes: tuple[str, ...] = ()


def read(problem: Problem, path: Path, modules: Path | None = None) -> Submission:
    """Reads a submission. The course modules that it imports are beside it, or in the folder `modules`.

    Raises UsageError if it is not a readable file, UnreadableSubmissionError if it is not Python text or imports a file
    that cannot be used.
    """
    try:
        data = files.read_regular(path, most_bytes(path.name) + 1)
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}. `grade start` creates one for each problem.") from None
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
    content, notes = text(problem, path.name, data)
    sources = imports.with_imports(problem.name, content, modules_in(modules or path.parent))
    return Submission(path.name, sources, tuple(notes))


def modules_in(folder: Path) -> Callable[[str], str | None]:
    """Returns a function that reads the modules of a learner's folder, for `with_imports`. Raises
    UnreadableSubmissionError."""

    def module(name: str) -> str | None:
        path = folder / f"{name}.py"
        try:
            data = files.read_regular(path, MAX_SIZE + 1)
        except FileNotFoundError:
            return None
        except (OSError, files.NotRegularFileError) as error:
            raise unusable_import(f"{path.name} {files.why_unreadable(error)}.") from None
        if len(data) > MAX_SIZE:
            raise unusable_import(f"{path.name} is larger than {MAX_SIZE >> 20} MiB, the size limit.")
        return data.decode("utf-8-sig", "replace")

    return module


def unusable_import(reason: str) -> UnreadableSubmissionError:
    """Returns the error for a file that imports a course module which cannot be read. `reason` is a sentence."""
    return UnreadableSubmissionError(f"it imports a file that cannot be used: {reason}")


def most_bytes(name: str) -> int:
    """Returns the size limit of a file with that name, in bytes. A notebook may be larger, because it also holds
    outputs."""
    return MAX_NOTEBOOK if name.lower().endswith(".ipynb") else MAX_SIZE


def text(problem: Problem, name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the Python text of a file or notebook, and notes on how it was read. Raises UnreadableSubmissionError."""
    if name.lower().endswith(".ipynb"):
        if len(data) > MAX_NOTEBOOK:
            raise UnreadableSubmissionError(f"{name} is larger than {MAX_NOTEBOOK >> 20} MiB, the size limit.")
        try:
            source, note = notebook.source(data, [entry.name for entry in problem.entries])
        except notebook.NotebookError as error:
            raise UnreadableSubmissionError(f"{name} {error}.") from None
        return source, [note]
    return python_text(name, data), []


def python_text(name: str, data: bytes) -> str:
    """Returns the text of a Python file. Raises UnreadableSubmissionError."""
    if len(data) > MAX_SIZE:
        raise UnreadableSubmissionError(f"{name} is larger than {MAX_SIZE >> 20} MiB, the size limit.")
    if _UTF16.match(data):
        raise UnreadableSubmissionError(
            f"{name} is UTF-16 text, which Windows PowerShell and some editors write; save it as UTF-8."
        )
    if b"\0" in data:
        raise UnreadableSubmissionError(
            f"{name} is a binary file, not Python text (zero byte at offset {data.index(0)})."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if encoding := _DECLARED.match(data):
            return data.decode(encoding[1].decode(), "replace")
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableSubmissionError(f"{name} is not UTF-8 text (line {line}); save it as UTF-8.") from None


def reference(problem: Problem) -> Submission:
    """Returns the reference as a submission."""
    return Submission(f"{problem.name}.py", catalog.reference_sources(problem))


def job(problem: Problem, limits: Limits | None = None) -> Job:
    """Returns the job of a worker for a problem: of a submission, its witness or the reference."""
    hidden = selection.secret_folders()
    return Job(problem.folder, problem.devices, limits or Limits(), hidden)
