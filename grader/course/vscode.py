"""The files that VS Code reads in a workspace: a task that grades at every save, tests for the Test Explorer,
recommended extensions."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commandline import files

FOLDER = ".vscode"
BEGINS, ENDS = "grading", "waiting for the next save of"  # the lines of `grade watch --lines` around what was found
_PYTHON = "python.defaultInterpreterPath"
_FINDING = {
    "regexp": r"^(/.+?):(\d+):(\d+): (error|info): (.+)$",
    "file": 1, "line": 2, "column": 3, "severity": 4, "message": 5,
}  # fmt: skip
_WATCH = {
    "label": "grade watch",
    "detail": "Grade your file at every save",
    "type": "process",
    "command": f"${{config:{_PYTHON}}}",
    "args": ["-P", "-m", "grader", "--workspace", "${workspaceFolder}", "watch", "--lines"],
    "isBackground": True,
    "group": {"kind": "build", "isDefault": True},
    "presentation": {"panel": "dedicated", "clear": True},
    "problemMatcher": {
        "owner": "grade",
        "source": "grade",
        "fileLocation": "absolute",
        "pattern": _FINDING,
        "background": {"activeOnStart": True, "beginsPattern": rf"^{BEGINS} \S+$", "endsPattern": rf"^{ENDS} \S+$"},
    },
}
# Ghost text writes attention before the learner can, and reads no instructions for assistants.
_NO_COMPLETION = {"editor.inlineSuggest.enabled": False, "github.copilot.enable": {"python": False}}
_EXTENSIONS = ["ms-python.python"]  # none that nobody has published: its name could be taken


def contents() -> Mapping[str, tuple[dict[str, Any], tuple[str, ...]]]:
    """Returns the files of FOLDER by name: the content to write, and the strings that an existing file must contain to
    need no advice."""
    needed = {
        _PYTHON: sys.executable,
        "python.testing.pytestEnabled": True,
        "python.testing.pytestArgs": ["--workspace", "."],
    }
    return {
        "tasks.json": ({"version": "2.0.0", "tasks": [_WATCH]}, ("grade watch",)),
        "settings.json": ({**needed, **_NO_COMPLETION}, tuple(needed)),
        "extensions.json": ({"recommendations": _EXTENSIONS}, tuple(_EXTENSIONS)),
    }


def add(workspace: Path) -> tuple[list[Path], dict[Path, list[str]]]:
    """Writes the files that are missing. Returns the new paths, and by path the strings that the learner's files lack.
    Raises UsageError."""
    created, lacking = list[Path](), dict[Path, list[str]]()
    for name, (value, needed) in contents().items():
        path = workspace / FOLDER / name
        if not os.path.lexists(path):
            files.write(path, f"{json.dumps(value, indent=2)}\n")
            created.append(path)
        elif lacks := [text for text in needed if json.dumps(text) not in _text(path)]:
            lacking[path] = lacks
    return created, lacking


def _text(path: Path) -> str:
    """Returns a file of the learner, which may hold comments and so need not be JSON. Empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
