"""Loads the learner's pieces from a workspace, smoke-tests each, and attributes later errors to them."""

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

import jax

from commandline.problem_name import ProblemName
from harness.config import Config
from harness.errors import HarnessError, PieceError, UsageError
from harness.pieces import smoke_test_cache
from harness.pieces.registry import MODULES, PIECES
from harness.pieces.smoke_tests import SmokeTestError
from harness.pieces.spec import PieceSpec, Setup, Use, has_segments

COURSE_MODULES = sorted(set(MODULES.values()))
_NAMED = 3  # of the pieces that are not filled in: a learner of five pieces would read forty names


@dataclass
class Pieces:
    """The pieces of a workspace."""

    folder: Path
    by_name: dict[str, Any] = field(default_factory=dict)  # those that are complete
    defined: set[str] = field(default_factory=set)  # all names that the modules define
    stubs: list[str] = field(default_factory=list)  # those that are not filled in
    digest: str = ""  # of all files

    def setup(self, config: Config) -> Setup:
        """What decides which pieces a run with this config uses."""
        return Setup(config, {name: PIECES.get(name) for name in self.by_name})

    def uses(self, name: str, config: Config) -> bool:
        """Whether a run with this config calls the piece: it is there, and so are those that it needs."""
        return self.setup(config).uses(name)

    def adapted(self, name: str, config: Config) -> Any:
        """The piece behind the harness's interface, or None if it is missing or this config does not use it."""
        return PIECES[name].adapter(config, self.by_name[name]) if self.uses(name, config) else None

    def names(self, config: Config, devices: int) -> tuple[str, ...]:
        """Each piece with the digest of the files, for the config: a run is not resumed with different pieces.

        With zero_step, nor with another number of `devices` along `data`, over which it splits the moments.
        """
        split = {"zero_step": f" over {devices} devices"} if self.uses("zero_step", config) else {}
        return tuple(f"{name} {self.digest}{split.get(name, '')}" for name in sorted(self.by_name))

    def describe(self, config: Config) -> list[str]:
        """One line per piece: whether a run with this config uses it, and why not. One for all that are not filled in.

        One says where to see whether those that are used are right.
        """
        setup = self.setup(config)
        lines = [
            f"{name}: {self._described(spec, setup.use(name)) if name in self.by_name else self._built_in(spec)}"
            for name, spec in PIECES.items()
            if name not in self.stubs
        ]
        if any(": yours" in line for line in lines):
            lines.append("A piece that is used may still be wrong: `grade list` shows which problems you have passed.")
        if self.stubs:
            first = ", ".join(f"{name} ({ProblemName(PIECES[name].module).label})" for name in self.stubs[:_NAMED])
            more = f" and {left} more" if (left := len(self.stubs) - _NAMED) > 0 else ""
            lines.append(f"Not filled in yet, so built-in: {first}{more}.")
        return lines

    def _described(self, spec: PieceSpec, use: Use) -> str:
        """How a run uses a piece that is there."""
        if not use.is_used:
            return f"not used ({use.words})"
        if not use.through:
            return f"yours, {self.folder / f'{spec.module}.py'}{f' ({use.words})' if use.words else ''}"
        values = _reachable_values(sys.modules[self.by_name[use.through].__module__])
        is_imported = self.by_name[spec.name] in values
        return f"yours, through {use.through}" if is_imported else f"not used: your {use.through} does not import it"

    def _built_in(self, spec: PieceSpec) -> str:
        """Why the harness's own code takes the place of a piece."""
        missing = [other for other in spec.needs if other not in self.by_name]
        if spec.name in self.defined and missing:
            return f"built-in (yours needs your {missing[0]}, which is missing)"
        file = f"{spec.module}.py"
        return f"built-in ({f'{file} does not define it' if (self.folder / file).exists() else f'there is no {file}'})"

    def copy_to(self, folder: Path) -> bool:
        """Copies the files to the run, which can then be sampled without the workspace. Returns whether it had none."""
        if folder.exists():
            return False  # a run with the same settings has the same pieces
        folder.mkdir(parents=True)
        for file in sorted(self.folder.glob("*.py")):
            shutil.copyfile(file, folder / file.name)
        return True


def _reachable_values(module: ModuleType) -> list[Any]:
    """The values in the namespace of a workspace module, and in those of the course modules that they come from."""
    values: list[Any] = []
    for value in vars(module).values():
        values.append(value)
        origin = sys.modules.get(getattr(value, "__module__", None) or "")
        if origin is not None and origin is not module and origin.__name__ in COURSE_MODULES:
            values.extend(vars(origin).values())
    return values


def load_pieces(folder: Path) -> Pieces:
    """The pieces of a workspace, smoke-tested unless the same files have passed. Raises UsageError if there are none.

    Raises PieceError if one is broken.
    """
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. --pieces takes a workspace; `grade start` creates one.")
    sys.path.insert(0, str(folder.absolute()))
    sys.dont_write_bytecode = True  # write nothing to the learner's workspace
    defined = {}
    before = smoke_test_cache.sources(folder)
    is_new = not any(module_name in sys.modules for module_name in COURSE_MODULES)
    for name, module_name in MODULES.items():
        file = folder / f"{module_name}.py"
        if not file.exists():
            continue
        module = _attempt(name, file, functools.partial(importlib.import_module, module_name))
        if Path(module.__file__ or "").resolve() != file.resolve():
            raise PieceError(f"{module_name} was imported from {module.__file__}, not from {folder}.")
        if hasattr(module, name):
            defined[name] = getattr(module, name)
    sources = smoke_test_cache.sources(folder) | before
    key = smoke_test_cache.key(sources)
    stubs = smoke_test_cache.recall(key, defined)
    pieces = check_pieces(defined, folder, stubs)
    # What was imported earlier, or changes or grows while the tests run, may not be what was tested.
    if stubs is None and is_new and smoke_test_cache.sources(folder) == sources:
        smoke_test_cache.remember(key, pieces.stubs)
    if not pieces.by_name:
        modules = ", ".join(f"{module}.py" for module in COURSE_MODULES)
        raise UsageError(f"{folder} contains no piece yet. Pieces come from {modules}.")
    files = [file for file in sorted(folder.glob("p[0-9][0-9]_*.py")) if file.stem in COURSE_MODULES]
    pieces.digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    return pieces


def check_pieces(defined: dict[str, Any], folder: Path, known_stubs: list[str] | None = None) -> Pieces:
    """Smoke-tests the pieces that files in `folder` define, each with those that it needs. Leaves out stubs.

    Tests nothing if it is known which are stubs, and that the others have passed. Raises PieceError if one is broken.
    """
    pieces = Pieces(folder, defined=set(defined))
    for name, spec in PIECES.items():
        if any(other not in defined or other in pieces.stubs for other in spec.needs) or name not in defined:
            continue
        together = (name, *spec.needs)
        smoke_test = functools.partial(spec.smoke_test, *(defined[other] for other in together))
        try:
            if known_stubs is None:
                _attempt(name, folder / f"{spec.module}.py", smoke_test, allow_stub=True)
            elif name in known_stubs:
                raise NotImplementedError
        except NotImplementedError:
            pieces.stubs.append(name)
        else:
            pieces.by_name |= {other: defined[other] for other in together}
    return pieces


def _attempt(name: str, file: Path, work: Callable[[], Any], *, allow_stub: bool = False) -> Any:
    """`work()`. Turns an error into a PieceError that says which piece, file and line it comes from.

    With `allow_stub`, NotImplementedError is raised as it is.
    """
    try:
        return work()
    except SmokeTestError as error:
        piece = error.piece or name
        module = MODULES[piece]
        raise PieceError(
            f"{piece} of {module}.py {error} `grade problem {ProblemName(module).label}` says more."
        ) from None
    except (PieceError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        if allow_stub and isinstance(error, NotImplementedError):
            raise
        frames = _frames_in(file.absolute().parent, error)
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        where = f"{Path(frames[-1].filename).name if frames else file.name}{f', line {line}' if line else ''}"
        raise PieceError(
            f"{name} of {file} failed: {_one_line(error)} ({where}). {_advice(error, ProblemName(file.stem))}"
        ) from error


def _advice(error: BaseException, problem: ProblemName) -> str:
    # Its verdict may be PASS: a grader can do without traces, a trainer cannot.
    if isinstance(error, jax.errors.JAXTypeError):
        return "Training traces it: compute with jax.numpy, not with NumPy or Python's numbers."
    return f"`grade problem {problem.label}` says more."


def attribute_errors_to(pieces: Pieces | None, work: Callable[[], Any]) -> Any:
    """`work()`. Turns an error from a file of the workspace into a PieceError that says where it was raised."""
    try:
        return work()
    except HarnessError:
        raise
    except Exception as error:
        frames = _frames_in(pieces.folder.absolute(), error) if pieces else []
        if not frames:
            raise
        file = Path(frames[-1].filename)
        problem = ProblemName.parse(file.stem)  # None for a module that is not one of the course
        raise PieceError(
            f"{file.name}, line {frames[-1].lineno}, failed during the run, although it passed the smoke test: "
            f"{_one_line(error)}.{f' `grade problem {problem.label}` says more.' if problem else ''}"
        ) from error


def _frames_in(folder: Path, error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an error's traceback that belong to files of `folder`."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename).absolute().parent == folder]


def _one_line(error: BaseException) -> str:
    """The type and the message of an error on one line of limited length."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)  # without the place, which is said beside it
    message = re.sub(r"\s+", " ", said).strip()
    return f"{type(error).__name__}: {message[:300]}"


def check_config(config: Config, pieces: Pieces) -> None:
    """Raises UsageError for settings that the pieces do not support."""
    setup = pieces.setup(config)
    requirements = [
        "" if config.objective == "next_token" else "they predict the next token; --set objective=next_token",
        "" if config.ema_decay == 0 else "they keep no average of the parameters; --set ema_decay=0",
        "" if config.dropout == 0 else "the harness applies no dropout with pieces; --set dropout=0",
        *(use.words for use in map(setup.use, setup.there) if use.is_conflict),
        "with mtp=1, they take a row for one story; --set packing=padded" * (config.mtp > 0 and has_segments(config)),
        "" if config.dtype == "float32" else "they compute in float32; --set dtype=float32",
    ]
    for sentence in filter(None, requirements):
        raise UsageError(f"These settings do not work with the pieces of {pieces.folder}: {sentence}.")
