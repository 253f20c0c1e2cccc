"""The files in the folder of a model, which somebody else has made: regular ones, of limited size, inside of the
folder."""

import json
from pathlib import Path
from typing import Any

from commandline import files
from harness.errors import UsageError

MOST_BYTES = 1 << 28  # of JSON or text; the largest vocabularies take 40 MB


def regular(file: Path) -> Path:
    """The file itself. Raises UsageError unless it is a regular file of its folder.

    A link may lead to a file of the folder, or as in the cache of the Hugging Face hub, from `snapshots/REVISION/` to
    `blobs/`.
    """
    try:
        files.require_regular(file.stat())
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{file} {files.why_unreadable(error)}.") from error
    target, folder = file.resolve(), file.parent.resolve()
    blobs = (folder.parent.parent / "blobs").resolve() if folder.parent.name == "snapshots" else folder
    if not (target.is_relative_to(folder) or target.is_relative_to(blobs)):
        raise UsageError(f"{file} is a link that leads out of its folder; replace it with a copy of the file.")
    return file


def read_text(file: Path) -> str:
    """The text of a file of a model. Raises UsageError if it is not a regular file of UTF-8 text, or too large."""
    try:
        with regular(file).open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{file} is larger than {MOST_BYTES >> 20} MiB, the limit of such a file.")
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} {files.why_no_text(error)}.") from error


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file of a model. Raises UsageError if there is none."""
    try:
        content = json.loads(read_text(file))
    except RecursionError as error:
        raise UsageError(f"{file} is not valid JSON: it is nested too deeply.") from error
    except ValueError as error:  # also for a number of thousands of digits
        raise UsageError(f"{file} is not valid JSON ({type(error).__name__}: {error}).") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file} is not a JSON object.")
    return content
