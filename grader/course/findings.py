"""What `grade verify` finds about an open task: sentences, each with a complaint if something is not as it must be."""

from collections.abc import Callable, Iterable
from pathlib import Path

from commandline.errors import UsageError
from grader.course import catalog, tasks
from grader.task import Task

Finding = tuple[str, str]  # what was found, and a complaint about it; empty if there is none
FEWEST_FORGERIES = 3


def finding(said: str, *, sound: bool, complaint: str = "") -> Finding:
    """Returns what was found. If it is not sound, it is also the complaint, unless there is another one."""
    return said, "" if sound else complaint or said


def of_page(task: Task, what: str, words: Iterable[str]) -> Finding:
    """Returns whether the page of a task shows all of these words. `what` names them."""
    text = catalog.page_text(task)
    missing = next((word for word in words if word not in text), "")
    return finding(f"the page shows {what}", sound=not missing, complaint=f"the page does not show {missing}")


def solution(task: Task, name: str) -> Path:
    """Returns the path of a file with a solution of a task. Raises UsageError if there is none."""
    path = task.home / "solutions" / task.label / name
    if not path.is_file():
        raise UsageError(f"there is no {path}")
    return path


def of_refusal(what: str, attempt: Callable[[], object]) -> Finding:
    """Returns whether a hand-in that cheats is refused: by a UsageError, or by the sentence that `attempt` returns."""
    try:
        refused = str(attempt() or "")
    except UsageError as error:
        refused = str(error)
    return finding(f"{what}: {refused or 'it is accepted'}", sound=bool(refused))


def of_forgeries(task: Task) -> list[Finding]:
    """Returns a complaint if a task has too few forgeries."""
    number = len(tasks.forgeries(task))
    said = f"it has {number} forgeries, fewer than {FEWEST_FORGERIES}"
    return [] if number >= FEWEST_FORGERIES else [finding(said, sound=False)]
