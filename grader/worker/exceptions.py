"""An exception of a submission as the judge and the learner are told of it."""

import re
import traceback
from collections import Counter
from typing import Any

import jax

from grader.worker.pytrees import BadOutputError
from grader.worker.remedies import remedy
from grader.worker.subject import BadEntryError
from grader.worker.time_limit import OutOfTimeError
from grader.worker.witness import RefusedProgramError

MAX_MESSAGE = 1000

# Flax's message about an attribute that holds arrays or modules in a plain container, where Flax does not find them.
PLAIN_CONTAINER = re.compile(
    r"Found data on value of type '<class '(list|tuple|dict)'>' assigned to static attribute '(\w+)'"
)
# How XLA and the C++ library say that an allocation failed.
_NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "std::bad_alloc")


def fields(error: BaseException, files: set[str]) -> dict[str, Any]:
    """An exception as the learner sees it: its kind, type and first paragraph, and the frames of the learner's own files."""
    frames = [
        [frame.filename, frame.lineno or 0, frame.name, (frame.line or "").strip()[:200]]
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename in files
    ]
    kind, message = "raised", _first_paragraph(error)
    if isinstance(error, SyntaxError) and error.filename in files:
        kind = "syntax"
        frames = [[error.filename or "", error.lineno or 0, "", (error.text or "").rstrip("\n")[:200]]]
        caret = " " * max(0, (error.offset or 1) - 1) + "^"
        return {"kind": kind, "type": type(error).__name__, "message": message, "frames": frames, "caret": caret[:200]}
    if isinstance(error, OutOfTimeError):
        kind = "timeout"
    elif isinstance(error, NotImplementedError):
        kind = "not_implemented"
    elif isinstance(error, MemoryError) or any(words in message for words in _NO_MEMORY):
        kind, message = "memory", f"ran out of memory: {message or 'an allocation failed'}"
    elif isinstance(error, BlockingIOError):
        kind, message = "processes", "it started more processes than the limit allows"
    elif isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        kind, message = "exit", f"it raised {type(error).__name__} ({message or 'no code'})"
    elif isinstance(error, BadOutputError):
        kind = "bad_output"
    elif isinstance(error, RefusedProgramError):
        kind = "refused"
    elif isinstance(error, BadEntryError):
        kind = "bad_entry"
    elif isinstance(error, ModuleNotFoundError):
        kind = "missing_import"
        message = str(error.name or message)
    elif isinstance(error, jax.errors.UnexpectedTracerError):
        kind = "tracer"
    elif match := PLAIN_CONTAINER.search(message):
        container, attribute = match.groups()
        wrapper = "nnx.Dict" if container == "dict" else "nnx.List"
        kind = "plain_container"
        message = f"`{attribute}` is a plain {container}, so Flax ignores its contents; wrap it in `{wrapper}(...)`"
    elif isinstance(error, RecursionError) and frames:
        # Where the stack ended depends on the machine. The call that repeats does not.
        (call, _), *_ = Counter(map(tuple, frames)).most_common(1)
        frames, message = [list(call)], f"`{call[2]}` calls itself without end"
    fields = {"kind": kind, "type": type(error).__name__, "message": message, "frames": frames[-8:]}
    return {**fields, "remedy": remedy(error) if kind == "raised" else ""}


def _first_paragraph(error: BaseException) -> str:
    """The first paragraph of an exception's message. Raises nothing, even if the learner's own `__str__` does."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        return "(its message cannot be shown)"
    # Memory addresses differ from run to run; a report must not.
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text.strip())
    return text.split("\n\n")[0][:MAX_MESSAGE]
