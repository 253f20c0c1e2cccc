"""Removes the lines that libraries logged from the output that a submission printed."""

import re

_LIBRARIES = "absl|asyncio|etils|flax|grain|jax|orbax|tensorstore"
_LOGGED = re.compile(
    rf"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):(?:{_LIBRARIES})(?:\.[\w.]+)?:"  # Python's logging
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d"  # absl in C++, as in XLA
    r"|WARNING: All log messages before absl::InitializeLog\(\)"
)
# asyncio logs the task, or the traceback of its exception, on further lines.
_CONTINUED = re.compile(
    r"(?:task|future|handle|transport|protocol|source_traceback): |Traceback \(most|\s+\S|[\w.]+(?:Error|Exception)\b"
)


def without_logs(text: str) -> str:
    """Returns the text without the lines that libraries logged, which are recognized by their prefix."""
    kept, in_log = [], False
    for line in text.splitlines(keepends=True):
        logged = _LOGGED.match(line) is not None
        in_log = logged or (in_log and _CONTINUED.match(line) is not None)
        if not in_log:
            kept.append(line)
    return "".join(kept)
