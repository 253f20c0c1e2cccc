"""Turns an exception raised by a submission into the failure that the judge and the learner see."""

import re
import traceback
from collections import Counter
from typing import Any

import jax

from grader.worker.pytrees import BadOutputError
from grader.worker.remedies import remedy
from grader.worker.subject import PLAIN_CONTAINER, BadEntryError
from grader.worker.time_limit import OutOfTimeError
from grader.worker.witness import RefusedProgramError

MAX_MESSAGE = 1000

_MOST_FRAMES = 8
_LONGEST_LINE = 200  # characters of a line of code
_RECURSIVE = 20  # times that a call is in the stack of a function that calls itself

# The messages of XLA and the C++ library when an allocation fails.
_NO_MEMORY = re.compile("RESOURCE_EXHAUSTED|Out of memory|std::bad_alloc")
_ANYTHING = re.compile("")
# The first row that fits is taken: the types of an exception, the pattern of its message, and its kind.
_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], re.Pattern[str], str], ...] = (
    (OutOfTimeError, _ANYTHING, "timeout"),
    (NotImplementedError, _ANYTHING, "not_implemented"),
    (MemoryError, _ANYTHING, "memory"),
    (BaseException, _NO_MEMORY, "memory"),
    (BlockingIOError, _ANYTHING, "processes"),
    ((SystemExit, KeyboardInterrupt, GeneratorExit), _ANYTHING, "exit"),
    (BadOutputError, _ANYTHING, "bad_output"),
    (RefusedProgramError, _ANYTHING, "refused"),
    (BadEntryError, _ANYTHING, "bad_entry"),
    (ModuleNotFoundError, _ANYTHING, "missing_import"),
    (jax.errors.UnexpectedTracerError, _ANYTHING, "tracer"),
    (BaseException, PLAIN_CONTAINER, "plain_container"),
)


def fields(error: BaseException, files: set[str]) -> dict[str, Any]:
    """Returns an exception as the learner sees it: its kind, type and first paragraph, and the frames of the learner's
    own files."""
    said = _first_paragraph(error)
    if isinstance(error, SyntaxError) and error.filename in files:
        return _syntax_error(error, said)
    kind = _kind(error, said)
    message = _message(kind, error, said)
    frames = [
        [frame.filename, frame.lineno or 0, frame.name, (frame.line or "").strip()[:_LONGEST_LINE]]
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename in files
    ]
    if kind == "raised" and isinstance(error, RecursionError) and frames:
        # Where the stack ended depends on the machine. The call that repeats does not.
        (call, times), *_ = Counter(map(tuple, frames)).most_common(1)
        if times >= _RECURSIVE:  # otherwise a library recurses, such as a parser that was given a deeply nested text
            frames, message = [list(call)], f"`{call[2]}` calls itself without end, or more deeply than Python allows"
    told = {"kind": kind, "type": type(error).__name__, "message": message, "frames": frames[-_MOST_FRAMES:]}
    return {**told, "remedy": remedy(error) if kind == "raised" else ""}


def _syntax_error(error: SyntaxError, message: str) -> dict[str, Any]:
    """Returns the fields of a syntax error in a learner's file: its only frame is the line, with a caret below it."""
    line = (error.text or "").rstrip("\n")[:_LONGEST_LINE]
    caret = " " * max(0, (error.offset or 1) - 1) + "^"
    return {
        "kind": "syntax",
        "type": type(error).__name__,
        "message": message,
        "frames": [[error.filename or "", error.lineno or 0, "", line]],
        "caret": caret[:_LONGEST_LINE],
    }


def _kind(error: BaseException, said: str) -> str:
    """Returns the kind of `error`, by its type and its message `said`; `raised` if no row of the table fits."""
    fitting = (kind for types, pattern, kind in _KINDS if isinstance(error, types) and pattern.search(said))
    return next(fitting, "raised")


def _message(kind: str, error: BaseException, said: str) -> str:
    """Returns the message for the learner: a sentence of the course for some kinds, the error's own message `said` for
    others."""
    match kind:
        case "memory":
            return f"ran out of memory: {said or 'an allocation failed'}"
        case "processes":
            return "it started more processes than the limit allows"
        case "exit":
            return f"it raised {type(error).__name__} ({said or 'no code'})"
        case "missing_import" if isinstance(error, ModuleNotFoundError):
            return str(error.name or said)
        case "plain_container" if match := PLAIN_CONTAINER.search(said):
            container, attribute = match.groups()
            wrapper = "nnx.Dict" if container == "dict" else "nnx.List"
            return f"`{attribute}` is a plain {container}, so Flax ignores its contents; wrap it in `{wrapper}(...)`"
    return said


def _first_paragraph(error: BaseException) -> str:
    """Returns the first paragraph of an exception's message. Raises nothing, even if the learner's own `__str__`
    does."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        return "(its message cannot be shown)"
    # Memory addresses differ from run to run; a report must not.
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text.strip())
    return text.split("\n\n")[0][:MAX_MESSAGE]
