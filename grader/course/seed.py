"""A teacher's secret seed: the same text gives the same cases on any machine."""

import hashlib
import os
import secrets
from pathlib import Path

from commandline import files
from commandline.errors import UsageError


def read_seed(file: Path) -> int:
    """Returns the seed that a file stands for: 128 bits of a hash of its text. Raises UsageError."""
    try:
        text = file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"The seed file {file} cannot be read: {error.strerror}.") from None
    if not text:
        raise UsageError(f"The seed file {file} is empty; write a secret word or number to it.")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def create_seed(file: Path) -> None:
    """Writes a random secret to a new file that only its owner can read, or a group that shares the folder.

    Keeps an existing file. Raises UsageError.
    """
    try:
        with os.fdopen(
            os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, files.private_mode(file.parent)), "w"
        ) as new:
            new.write(f"{secrets.token_hex(16)}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise UsageError(f"The seed file {file} cannot be written: {error.strerror}.") from None
