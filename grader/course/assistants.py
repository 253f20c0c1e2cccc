"""The instructions for an AI assistant that opens a workspace: to tutor, and not to solve."""

from grader.course import selection
from grader.paths import ROOT

FILE = "agents.md"
INSTRUCTIONS = "AGENTS.md"  # read by most assistants
# For those that read files of their own. CLAUDE.md imports a file by its name after `@`.
_POINT_TO_IT = "Read AGENTS.md in this folder and follow it.\n"
_POINTERS = {
    "CLAUDE.md": f"@{INSTRUCTIONS}\n",
    ".github/copilot-instructions.md": _POINT_TO_IT,
    ".cursor/rules/gpt-kata.mdc": f"---\nalwaysApply: true\n---\n\n{_POINT_TO_IT}",
}


def instructions() -> str:
    """Returns the instructions of the selected course, or those that every course has; empty in a bundle without
    them."""
    for root in (selection.selected().root, ROOT):
        if (path := root / "problems" / FILE).is_file():
            return path.read_text(encoding="utf-8")
    return ""


def files() -> dict[str, str]:
    """Returns the files for a workspace, by their path in it."""
    text = instructions()
    return {INSTRUCTIONS: text, **_POINTERS} if text.strip() else {}
