"""A teacher's secret, and the cases it stands for: the same text, the same cases anywhere."""

import hashlib
import os
import secrets
from pathlib import Path

from commandline.errors import UsageError


def number(file: Path) -> int:
    """The seed that the text of a file stands for: 128 bits of its hash. Raises UsageError."""
    try:
        text = file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"The seed file {file} cannot be read: {error.strerror}.") from None
    if not text:
        raise UsageError(f"The seed file {file} is empty; write a secret word or number into it.")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def make(file: Path) -> None:
    """Writes a new secret that only its owner may read, unless there is one. Raises UsageError."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(f"{secrets.token_hex(16)}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise UsageError(f"The seed file {file} cannot be written: {error.strerror}.") from None
