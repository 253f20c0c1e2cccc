"""The code that the folder of a run brings: its pieces, and the program of its reward. Other people's runs only if
trusted.

Code is trusted by its content, so a run that was made here may be moved, and a changed file is refused.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from commandline import files
from commandline.trust import is_trusted
from commandline.trust import trust as remember
from harness.config import Config
from harness.errors import UsageError
from harness.run.folder import Run
from harness.run.rewards import split_file

MOST_BYTES = 1 << 24  # of one file
_KIND = "runs"


class OwnCode(NamedTuple):
    """Files that commands of a run execute, and a digest of their names and texts."""

    what: str
    paths: tuple[Path, ...]
    digest: bytes
    is_remembered: bool = False  # beyond this process


def require_pieces(run: Run, instead: str = "") -> None:
    """Raises UsageError unless the pieces in the folder of the run were made here or are trusted.

    `instead` is a sentence on how the command does without them.
    """
    _require(run, _pieces(run), instead)


def require_reward(run: Run, config: Config) -> None:
    """Raises UsageError unless the program of the run's reward, if it has one, was made here or is trusted."""
    _require(run, _reward(run, config), "")


def trust_pieces(run: Run) -> OwnCode | None:
    """Trusts the pieces in the folder of a run from now on. Raises UsageError for files that no run keeps."""
    return _trusted(_pieces(run))


def trust_reward(run: Run, config: Config) -> OwnCode | None:
    """Trusts the program of the run's reward from now on, if it has one. Raises UsageError if it is no regular file."""
    return _trusted(_reward(run, config))


def _trusted(code: OwnCode | None) -> OwnCode | None:
    return code and code._replace(is_remembered=remember(_KIND, code.digest))


def _require(run: Run, code: OwnCode | None, instead: str) -> None:
    if code is None or is_trusted(_KIND, code.digest):
        return
    it, them = ("It", "it") if len(code.paths) == 1 else ("They", "them")
    raise UsageError(
        f"The run {run.folder} was not made on this machine, or its code has changed since: {described(code)}. {it} "
        f"would run with your permissions, and may come from somebody else; if you trust {them}, run `harness trust "
        f"{run.folder}`." + (f" {instead}" if instead else "")
    )


def described(code: OwnCode) -> str:
    """What the code is, with the names of its files."""
    shown = [path.name for path in code.paths[:5]]
    more = f" and {len(code.paths) - len(shown)} more" if len(code.paths) > len(shown) else ""
    return f"{code.what} {', '.join(shown)}{more}"


def _pieces(run: Run) -> OwnCode | None:
    """The pieces that a run keeps; None if their folder is missing, which is reported where they are loaded."""
    if not run.pieces.is_dir():
        return None
    # Any other entry can be imported in place of a piece: a folder, a compiled file, a link.
    entries = sorted(path for path in run.pieces.iterdir() if not path.name.startswith("."))
    if others := [path for path in entries if path.suffix != ".py"]:
        raise UsageError(
            f"{others[0]} is not a file that a run keeps: the folder of its pieces has .py files only. Remove it."
        )
    return OwnCode("the pieces", tuple(entries), _digest("pieces", entries)) if entries else None


def _reward(run: Run, config: Config) -> OwnCode | None:
    """The program of the run's reward: the original file if it exists, else the run's copy. None if there is none."""
    found = split_file(config.reward)
    if found is None or found[1].suffix != ".py":
        return None
    original, copy = found[1], run.reward_file(found[1])
    for file in (original, copy):
        if file.exists():
            _digest("reward", [file.resolve()])  # a pipe would be waited for
    file = run.copy_of(original, copy)
    return OwnCode("the reward", (file,), _digest("reward", [file.resolve()])) if file.exists() else None


def _digest(what: str, paths: Iterable[Path]) -> bytes:
    total = hashlib.sha256(what.encode())
    for path in paths:
        try:
            text = files.read_regular(path, MOST_BYTES + 1)
        except (OSError, files.NotRegularFileError) as error:
            raise UsageError(f"{path} {files.why_unreadable(error)}.") from error
        if len(text) > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB, the limit of a file of a run's code.")
        name = path.name if what == "pieces" else ""  # a reward is found by its path, wherever that is
        total.update(repr((name, hashlib.sha256(text).hexdigest())).encode())
    return total.digest()
