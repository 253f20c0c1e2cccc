"""Pieces: the learner's own classes and functions. Finds them in a workspace, tries each, and says whose is used.

What a run is then made of is in `harness.pieces.adapt`.
"""

import functools
import hashlib
import importlib
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.config import Config
from harness.errors import HarnessError, PieceError, UsageError
from harness.pieces.registry import KNOWN, MODULES

COURSE = sorted(set(MODULES.values()))
WHEN = {
    "accumulated_gradients": "where accumulate is more than 1",
    "train_step": "where accumulate is 1",
    "partition_spec": "without --fsdp",
    "fsdp_spec": "with --fsdp",
    "generate": "where there is no decode_step",
    "LoRALinear": "where lora_rank is more than 0",
    "export_gpt2": "by `harness export`",
}


@dataclass
class Pieces:
    """What a workspace defines, by name."""

    folder: Path
    found: dict[str, Any] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)  # there, filled in or not
    stubs: list[str] = field(default_factory=list)  # there, and not filled in
    digest: str = ""  # of all their files

    def names(self) -> tuple[str, ...]:
        """For the config: each piece and a digest of the files, so that a run is not resumed with another piece."""
        return tuple(f"{name} {self.digest}" for name in self.found)

    def describe(self) -> list[str]:
        """Which pieces are whose, a sentence each."""
        lines = []
        for name, known in KNOWN.items():
            file = self.folder / f"{known.module}.py"
            whole = self.found.get("MiniGPT")
            if name not in self.found:
                lines.append(f"{name}: the harness's ({self._why_not(name)})")
            elif whole is not None and name in ("TokenAndPositionEmbed", "CausalMHA", "GPTBlock"):
                used = self.found[name] in _reached(sys.modules[whole.__module__])
                lines.append(
                    f"{name}: {'yours, through MiniGPT' if used else 'not used: your MiniGPT does not import it'}"
                )
            else:
                lines.append(f"{name}: yours, {file}{f' ({WHEN[name]})' if name in WHEN else ''}")
        return lines

    def _why_not(self, name: str) -> str:
        """Why a piece is not used."""
        known = KNOWN[name]
        if name in self.stubs:
            return f"{known.module}.py is not filled in yet"
        lacking = [other for other in known.others if other not in self.found]
        if name in self.given and lacking:
            return f"yours needs your {lacking[0]}, which is not there"
        file = f"{known.module}.py"
        return f"{file} has none" if (self.folder / file).exists() else f"{file} is not there"

    def copy_to(self, folder: Path) -> None:
        """Keeps the files with the run, which can then be sampled from wherever the workspace goes."""
        if folder.exists():
            return  # with the same settings, so with the same pieces
        folder.mkdir(parents=True)
        for file in sorted(self.folder.glob("*.py")):
            shutil.copyfile(file, folder / file.name)


def _reached(module: ModuleType) -> list[Any]:
    """Everything that a module of the workspace names, and what those of it name in turn."""
    seen: list[Any] = []
    for value in vars(module).values():
        seen.append(value)
        inner = sys.modules.get(getattr(value, "__module__", None) or "")
        if inner is not None and inner is not module and inner.__name__ in COURSE:
            seen.extend(vars(inner).values())
    return seen


def load_pieces(folder: Path) -> Pieces:
    """The pieces that a workspace defines, each tried. Raises UsageError if there is none, PieceError if one is broken."""
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}. --pieces takes a workspace, such as the one `grade start` makes."
        )
    sys.path.insert(0, str(folder.absolute()))
    sys.dont_write_bytecode = True  # the workspace is the learner's
    offered = {}
    for name, module_name in MODULES.items():
        file = folder / f"{module_name}.py"
        if not file.exists():
            continue
        module = _guarded(name, file, functools.partial(importlib.import_module, module_name))
        if Path(module.__file__ or "").resolve() != file.resolve():
            raise PieceError(f"{module_name} was imported from {module.__file__}, not from {folder}.")
        if hasattr(module, name):
            offered[name] = getattr(module, name)
    pieces = tried(offered, folder)
    if not pieces.found:
        raise UsageError(f"There is no piece in {folder} yet. It looks for {', '.join(f'{m}.py' for m in COURSE)}.")
    sources = b"".join(file.read_bytes() for file in sorted(folder.glob("p[0-9][0-9]_*.py")) if file.stem in COURSE)
    pieces.digest = hashlib.sha256(sources).hexdigest()[:12]
    return pieces


def tried(offered: dict[str, Any], folder: Path) -> Pieces:
    """The pieces among `offered`, from files in `folder`: each tried, with those it needs; stubs left out.

    Raises PieceError if one is broken.
    """
    pieces = Pieces(folder, given=set(offered))
    for name, known in KNOWN.items():
        together = (name, *known.others)
        usable = all(other in offered and (other == name or other not in pieces.stubs) for other in together)
        if not usable:
            continue
        work = functools.partial(known.trial, *(offered[other] for other in together))
        try:
            _guarded(name, folder / f"{known.module}.py", work, stub=True)
        except NotImplementedError:
            pieces.stubs.append(name)
        else:
            pieces.found |= {other: offered[other] for other in together}
    return pieces


def _guarded(name: str, file: Path, work: Callable[[], Any], *, stub: bool = False) -> Any:
    """`work()`, its errors in one sentence that says whose and where."""
    try:
        return work()
    except PieceError:
        raise
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        if stub and isinstance(error, NotImplementedError):
            raise
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).absolute().parent == file.absolute().parent
        ]
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        where = f"{Path(frames[-1].filename).name if frames else file.name}{f', line {line}' if line else ''}"
        number = int(file.name[1:3])
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise PieceError(
            f"{name} of {file} failed: {type(error).__name__}: {said[:300]} ({where}). `grade problem {number:02}` says more."
        ) from error


def blame(pieces: Pieces | None, work: Callable[[], Any]) -> Any:
    """`work()`; an error that came from a file of the workspace is a PieceError that says where."""
    try:
        return work()
    except HarnessError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if pieces and Path(f.filename).absolute().parent == pieces.folder.absolute()]
        if not theirs:
            raise
        name = Path(theirs[-1].filename).name
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise PieceError(
            f"{name}, line {theirs[-1].lineno}, failed in the run, although it works on a tiny example: "
            f"{type(error).__name__}: {said[:300]}. `grade problem {name[1:3]}` says more."
        ) from error


def check_config(config: Config, pieces: Pieces) -> None:
    """Raises UsageError for settings that pieces cannot be used with."""
    for rule, sentence in (
        (config.task == "next", "they predict the next token; leave out task=same"),
        (config.dropout == 0, "they have no dropout; --set dropout=0"),
        (
            "train_step" not in pieces.found or config.accumulate == 1 or "accumulated_gradients" in pieces.found,
            "train_step takes the whole batch; --set accumulate=1",
        ),
        (config.dtype == "float32", "they compute in float32; --set dtype=float32"),
    ):
        if not rule:
            raise UsageError(f"Pieces of {pieces.folder}: {sentence}.")
