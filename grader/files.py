"""Files written whole or not at all."""

import os
import tempfile
from pathlib import Path

from grader.errors import UsageError


def write(path: Path, text: str) -> None:
    """Writes a file, and the folder it stands in, whole or not at all. Raises UsageError if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
