"""`grade mcp`: a tutor's answers over the Model Context Protocol, on standard input and output."""

from collections.abc import Callable
from functools import partial, wraps
from importlib.metadata import version
from typing import ParamSpec

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FunctionResource
from mcp.types import INVALID_PARAMS, ToolAnnotations

from commandline.errors import CommandError
from commandline.invocation import as_typed
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.editors.tutor import Tutor

_Arguments = ParamSpec("_Arguments")
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RECORDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def server(space: Workspace) -> MCPServer:
    """Returns the server for a workspace: its tools, a resource for each page, and the prompt `tutor`."""
    tutor = Tutor(space)
    made = MCPServer(
        "gpt-kata",
        title="GPT Kata",
        instructions=tutor.instructions(),
        version=version("gpt-kata"),
        log_level="WARNING",
    )

    def tool(answer: Callable[_Arguments, str], annotations: ToolAnnotations) -> None:
        made.add_tool(_in_words(answer), annotations=annotations, structured_output=False)

    # The names, parameters and docstrings of these functions are what an assistant reads.
    def list_problems() -> str:
        """List the problems of the course by part, with points and where the learner stands with each."""
        return tutor.list_problems()

    def read_page(problem: str | int) -> str:
        """Read the page of a problem: ideas, a worked sketch, pitfalls, inputs and outputs. `problem` is a number:
        07."""
        return tutor.read_page(str(problem))

    def grade(problem: str | int) -> str:
        """Grade the learner's own file and read the verdict as the learner sees it. It is recorded in their
        progress."""
        return tutor.grade(str(problem))

    def next_hint(problem: str | int) -> str:
        """Take the next hint of a problem. It counts as a hint that the learner has used, so ask the learner first."""
        return tutor.next_hint(str(problem))

    def explain_check(problem: str | int, check: str = "") -> str:
        """Explain what a check grades, on which cases, and how exactly. Without `check`, all checks of the problem."""
        return tutor.explain_check(str(problem), check)

    def play(problem: str | int, text: str = "") -> str:
        """Show what the learner's file does in a trained model, as text. It counts for nothing. Some plays take a
        `text`."""
        return tutor.play(str(problem), text)

    def cost(problem: str | int) -> str:
        """Count what the learner's file costs: operations by kind and line, memory, and other correct programs
        beside it."""
        return tutor.cost(str(problem))

    def progress() -> str:
        """Read what the learner has done so far: points, hints, and the misconceptions that were named."""
        return tutor.progress()

    def due_reviews() -> str:
        """List the reviews of passed problems that are due today, and the dates of the next ones."""
        return tutor.due_reviews()

    for answer in (list_problems, read_page, explain_check, cost, progress, due_reviews):
        tool(answer, _READS)
    for answer in (grade, next_hint, play):
        tool(answer, _RECORDS)
    for problem in catalog.problems():
        made.add_resource(
            FunctionResource.from_function(
                _in_words(partial(tutor.read_page, problem.label)),
                f"gpt-kata://pages/{problem.label}",
                name=problem.name,
                title=f"{problem.label} {problem.title}",
                description=f"The page of problem {problem.label}.",
                mime_type="text/markdown",
            )
        )

    @made.prompt(name="tutor", title="Tutor me", description="Tutor the learner on a problem, without solving it.")
    def lesson(problem: str = "") -> str:
        try:
            return tutor.lesson(problem)
        except CommandError as error:
            raise MCPError(INVALID_PARAMS, as_typed(str(error))) from None

    return made


def _in_words(answer: Callable[_Arguments, str]) -> Callable[_Arguments, str]:
    """Returns the function, with each error for people as a message to the assistant."""

    @wraps(answer)
    def told(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> str:
        try:
            return answer(*args, **kwargs)
        except CommandError as error:
            raise ToolError(as_typed(str(error))) from None

    return told


def serve(space: Workspace) -> None:
    """Serves one assistant until it closes standard input."""
    server(space).run("stdio")
