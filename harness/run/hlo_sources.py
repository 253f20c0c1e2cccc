"""A compiled program as text: the part of the model, the primitive and the source line of each of its operations."""

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SCOPES = (
    "attention",
    "state-space",
    "feed-forward",
    "loss",
    "optimizer",
)  # of `jax.named_scope` in the model and the train step
REST = "rest"
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?([\w.-]+) = ")
_CALLS = re.compile(r"\bcalls=%?([\w.-]+)")
_METADATA = re.compile(r'metadata=\{op_name="([^"]*)"(?:.*?stack_frame_id=(\d+))?')
_PIECE_FILE = re.compile(r"p\d\d_\w+\.py")


class Operation(NamedTuple):
    """Where an operation comes from."""

    part: str  # a scope, or the piece whose line it is; REST otherwise
    primitive: str  # of JAX, such as dot_general, or the equation of an einsum
    backward: bool
    line: str  # such as attention.py:38; empty if unknown

    def __str__(self) -> str:
        return self.primitive + (", backward" if self.backward else "")


class Frame(NamedTuple):
    """A line that an operation was traced from."""

    file: Path
    function: str
    line: int


def operations(text: str, folders: tuple[Path, ...]) -> dict[str, Operation]:
    """The origin of each instruction of `compiled.as_text()`. Source lines are those of files below `folders`.

    An instruction that records no origin, such as some fusions, has that of the computation that it calls. One that
    calls none was added by XLA, such as a copy.
    """
    innermost = _innermost_frames(text, folders)
    found: dict[str, Operation] = {}
    calls: dict[str, str] = {}
    last: dict[str, Operation] = {}  # the origin of the last instruction of each computation, which is its result
    computation = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[1]
        elif instruction := _INSTRUCTION.match(line):
            metadata = _METADATA.search(line)
            if metadata and "/" in metadata[1]:  # reducers have a name without a path
                origin = _origin(metadata[1].partition(";")[0], innermost(int(metadata[2] or 0)))
                found[instruction[1]] = last[computation] = origin
            else:
                call = _CALLS.search(line)
                calls[instruction[1]] = call[1] if call else ""
    for name, called in calls.items():
        found[name] = last.get(called) or Operation(REST, f"{name.rstrip('.0123456789')}, added by XLA", False, "")
    return found


def _origin(path: str, frame: Frame | None) -> Operation:
    """The origin by a path such as `jit(step)/transpose(jvp())/attention/mul` and by its own innermost line."""
    scopes = [word for word in re.findall(r"[\w-]+", re.sub(r"jit\(\w*\)", "", path)) if word in SCOPES]
    if scopes:
        part = scopes[-1]
    elif frame is not None and _PIECE_FILE.fullmatch(frame.file.name):
        part = frame.function.partition(".")[0]
    else:
        part = REST
    line = f"{frame.file.name}:{frame.line}" if frame else ""
    *_, outer, primitive = ["", *path.split("/")]
    return Operation(part, outer if "->" in outer else primitive, "transpose(" in path, line)


def _innermost_frames(text: str, folders: tuple[Path, ...]) -> Callable[[int], Frame | None]:
    """A function from the id of a stack frame to the innermost frame in a file below `folders`. Id 0 is no frame."""
    tables: dict[str, dict[int, str]] = defaultdict(dict)
    title = ""
    for line in text.splitlines():
        if line in _TABLES:
            title = line
        elif title and (row := re.match(r"(\d+) (.+)", line)):
            tables[title][int(row[1])] = row[2]
        elif _COMPUTATION.match(line):
            break
    files, functions, locations, frames = (tables[title] for title in _TABLES)

    def numbers(row: str) -> dict[str, int]:
        return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", row)}

    def innermost(frame: int) -> Frame | None:
        while frame in frames:
            row = numbers(frames[frame])
            place = numbers(locations[row["file_location_id"]])
            file = Path(files[place["file_name_id"]].strip('"'))
            if any(file.is_relative_to(folder) for folder in folders):
                return Frame(file, functions[place["function_name_id"]].strip('"'), place["line"])
            frame = row["parent_frame_id"] - 1  # XLA counts parents from 1, and 1 is none
        return None

    return innermost
