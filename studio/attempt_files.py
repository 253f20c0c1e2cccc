"""The learner's files as the studio reads and writes them: by problem only, never through a link, never over a newer
text."""

import hashlib
from dataclasses import dataclass

from commandline import files
from commandline.errors import UsageError
from grader.course.workspace import Workspace
from grader.judge import submission
from grader.judge.submission import MAX_SIZE, Submission
from grader.problem import Problem


@dataclass(frozen=True)
class AttemptFile:
    """The text of a file, with line feeds only, and a hash that distinguishes it from a later text."""

    text: str
    has_crlf: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


class ConflictError(Exception):
    """The file has changed since the text was read that the new text is based on."""

    def __init__(self, present: AttemptFile) -> None:
        super().__init__("The file has changed on disk.")
        self.present = present


def read(space: Workspace, problem: Problem) -> AttemptFile:
    """Returns the learner's file; its stub if there is none. Raises UsageError if it is not a text that can be
    edited."""
    space.add(problem)
    path = space.file(problem)
    try:
        data = files.read_regular(path, MAX_SIZE + 1)
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path.name} {files.why_unreadable(error)}.") from None
    if len(data) > MAX_SIZE:
        raise UsageError(f"{path.name} is larger than {MAX_SIZE >> 20} MiB, the size limit.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is not UTF-8 text (offset {error.start}); save it as UTF-8.") from None
    return AttemptFile(with_line_feeds(text), "\r\n" in text)


def submit(space: Workspace, problem: Problem, text: str, base: str) -> tuple[AttemptFile, Submission]:
    """Saves a text as `save` does, for a page that cannot show two texts, and reads the submission. Raises
    UsageError."""
    try:
        saved = save(space, problem, text, base)
        return saved, submission.read(problem, space.file(problem), space.modules)
    except ConflictError:
        raise UsageError(f"{space.file(problem)} has changed on disk. Copy your text, and reload this page.") from None
    except submission.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None


def with_line_feeds(text: str) -> str:
    """Returns the text with line feeds only."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def save(space: Workspace, problem: Problem, text: str, base: str) -> AttemptFile:
    """Replaces the learner's file by a text that is based on the one with the hash `base`.

    Raises ConflictError if the file has changed since, UsageError if it cannot be written.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError("The text has half of a surrogate pair in it, which no file can hold.") from None
    if size > MAX_SIZE:
        raise UsageError(f"The file is larger than {MAX_SIZE >> 20} MiB, the size limit.")
    present, new = read(space, problem), AttemptFile(text)
    if present.digest not in (base, new.digest):
        raise ConflictError(present)
    if present.text != new.text:
        files.write(space.file(problem), text.replace("\n", "\r\n") if present.has_crlf else text)
    return new
