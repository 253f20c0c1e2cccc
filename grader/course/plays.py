"""The plays of problems, from the constants of `play.py` in a problem's folder. Reads the file, and does not run it."""

import ast
import shlex
from dataclasses import dataclass
from pathlib import Path

from commandline import invocation
from commandline.errors import UsageError
from grader.course import imports, models_on_disk
from grader.errors import CourseError
from grader.problem import Problem

FILE = "play.py"
_CONSTANTS = ("TRAINS", "TEXT", "MODEL_TYPES", "MODEL_COMMAND", "BEST_RUN")


@dataclass(frozen=True)
class Play:
    """A play, as the constants of its file describe it.

    Attributes:
        path: The file.
        trains: TRAINS: whether it trains, which gives it more time.
        text: TEXT: the text that it shows unless the learner types another; None if it takes no text.
        models: MODEL_TYPES: kinds of models, by their `model_type` in config.json, in which `command` shows the same.
        command: MODEL_COMMAND: a command with `{model}` and `{workspace}`.
        ends_with_run: BEST_RUN: whether the best run of the learner's own pieces is shown at the end.
    """

    path: Path
    trains: bool = False
    text: str | None = None
    models: tuple[str, ...] = ()
    command: str = ""
    ends_with_run: bool = False


@dataclass(frozen=True)
class Offer:
    """A sentence, and the command that shows a learner's file in a model on the disk."""

    said: str
    command: str


def exists(problem: Problem) -> bool:
    """Returns whether a problem has a play. Does not read it."""
    return (problem.folder / FILE).is_file()


def find(problem: Problem) -> Play | None:
    """Returns the play of a problem, or None if it has none. Raises CourseError if its constants are not valid."""
    path = problem.folder / FILE
    if not path.is_file():
        return None
    try:
        body = imports.syntax_tree(path.read_text(encoding="utf-8")).body
        constants = {
            target.id: ast.literal_eval(node.value)
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id in _CONSTANTS
        }
    except (SyntaxError, ValueError) as error:
        raise CourseError(f"{path} cannot be read: {error}.") from None
    trains, text = constants.get("TRAINS", False), constants.get("TEXT")
    if type(trains) is not bool or not (text is None or type(text) is str):
        raise CourseError(f"{path}: TRAINS must be True or False, and TEXT a text.")
    ends_with_run = constants.get("BEST_RUN", False)
    if type(ends_with_run) is not bool:
        raise CourseError(f"{path}: BEST_RUN must be True or False.")
    models, command = constants.get("MODEL_TYPES", ()), constants.get("MODEL_COMMAND", "")
    if not (isinstance(models, tuple) and type(command) is str and bool(models) == ("{model}" in command)):
        raise CourseError(f"{path}: MODEL_TYPES must be a tuple of texts, with a MODEL_COMMAND that has {{model}}.")
    return Play(path, trains, text, models, command, ends_with_run)


def offer(problem: Problem, file: Path) -> Offer | None:
    """Returns the offer to run a learner's file in a model on the disk; None if there is no such model, or no such
    command.

    `file` must lie in a workspace under the name of the problem, or the command would not find it.
    """
    play = find(problem)
    if play is None or not play.models or file.name != f"{problem.name}.py":
        return None
    model = models_on_disk.smallest(play.models)
    if model is None:
        return None
    program, _, words = play.command.partition(" ")
    command = f"{invocation.command(program)} {words}".format(
        model=f"hf:{model.name}", workspace=shlex.quote(str(file.parent))
    )
    return Offer(f"There is {model.name} ({model.size / 1e9:.1f} GB) on your disk. To run your code in it:", command)


def required(problem: Problem, text: str | None = None) -> Play:
    """Returns the play of a problem. Raises UsageError if it has none, or takes no text and gets one."""
    play = find(problem)
    if play is None:
        raise UsageError(f"Problem {problem.label} has no play here: {problem.folder / FILE} is missing.")
    if text is not None and play.text is None:
        raise UsageError(f"The play of problem {problem.label} takes no text; leave it out.")
    return play
