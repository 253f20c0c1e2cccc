"""The map: all problems by part, the problems that each builds on, and the learner's progress."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commandline.text import counted
from grader.cost import records
from grader.cost.figures import WORK
from grader.course import catalog, glossary, models, paths, tasks
from grader.course.log import Progress
from grader.course.workspace import CHANGED, Standing
from grader.practice import reminders
from grader.problem import Problem
from grader.report import own_run
from grader.report.markdown_html import to_html
from grader.task import Task
from studio.studio import Studio
from studio.view import read_json, render

# Where a word that is longer than a column of the map may be broken.
_BREAKS = re.compile(r"\b(auto|con)(?=\w{7})|(?<=\w{7})(?=tion)", re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """A problem on the map, with the learner's work on it.

    Attributes:
        problem: The problem.
        row: The row, one for each part.
        column: The column in that row.
        standing: The learner's current standing.
        why_changed: Which imports changed since it passed, in a clause; empty if none is known to have.
        best: The best score.
        is_next: Whether it is the suggested next problem.
        is_due: Whether its review is due.
        played: The title of the exhibit that its last play ended with; empty if there is none.
        on_path: Whether it is on the learner's path.
        work: The fewest scalar operations of a program that passed; 0 if none was counted.
    """

    problem: Problem
    row: int
    column: int
    standing: Standing
    why_changed: str
    best: int
    is_next: bool
    is_due: bool
    played: str
    on_path: bool
    work: int

    @property
    def title(self) -> str:
        """The problem's title, with soft hyphens in the words that are longer than a column of the map."""
        return _BREAKS.sub("\\1\N{SOFT HYPHEN}", self.problem.title)

    @property
    def more(self) -> str:
        """A line on the problem, for who points at it: its title, the time that it takes until it is passed, what has
        changed, and what its play showed."""
        time = f", about {self.problem.minutes} minutes" if self.problem.minutes and not self.standing.passed else ""
        changed = f": {self.why_changed}" if self.why_changed else ""
        return f"{self.problem.title}{time}{changed}{f'. Played: {self.played}' if self.played else ''}"

    @property
    def kind(self) -> str:
        """The way in which the map draws the node: `passed`, `due`, `begun`, or empty."""
        if self.standing.passed:
            return "due" if self.is_due else "passed"
        return "" if self.standing.state in ("", "not attempted") else "begun"

    @property
    def words(self) -> str:
        """The learner's standing: points now, and the best if they are more; before that, how long it takes. A pass has
        all points, so it needs no number."""
        state, now, _ = self.standing
        if not self.kind:
            minutes = self.problem.minutes
            time = f"~{minutes} min" if minutes < 100 else f"~{minutes / 60:.1f} h"  # a card has room for 7 letters
            return time if minutes else counted(self.problem.points, "point")
        best = f", best {self.best}" if self.best > now else ""
        if self.is_due:
            return "review due"
        if self.why_changed:
            return f"{state}: {self.why_changed}"
        if now == self.problem.points:
            return f"{state}, {self.work:,} operations" if self.work else state
        return f"{state}, {now} of {self.problem.points}{best}"


def course_map(request: Request) -> Response:
    """Returns the page."""
    studio: Studio = request.app.state.studio
    nodes = _nodes(studio)
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(catalog.part_of(node.problem), []).append(node)
    reached, at = studio.space.reached(), f"{request.scope['root_path']}/runs"
    if run := own_run.best(studio.runs_folder) if studio.runs_folder else None:
        reached = f"{run.standing} [See it]({at}/{quote(run.name)})"
    elif "harness train" in reached:
        reached += f" [Train here]({at})"
    following, listed = next((node for node in nodes if node.is_next), None), _tasks(studio)
    values = {
        "paths": paths.every(),
        "chosen": studio.space.path,
        "parts": parts,
        "reached": to_html(reached),
        "next": following,
        "instead": studio.space.instead_of(following.problem) if following else None,
        "columns": max(len(row) + len(listed.get(part, ())) for part, row in parts.items()),
        "done": {part: sum(node.standing.passed for node in nodes) for part, nodes in parts.items()},
        "tasks": listed,
        "edges": _edges({node.problem.number: node for node in nodes}),
        "facts": _facts(studio, nodes),
        "due": len(reminders.due_memories(studio.space)),
        "has_glossary": glossary.path().is_file(),
        "has_models": models.path().is_file(),
    }
    return render(request, "map.html", values)


def _nodes(studio: Studio) -> list[Node]:
    progress, problems = studio.space.progress(), catalog.problems()
    standings, next_problem = studio.space.standings(), studio.space.next_problem()
    exhibits, due = studio.history.exhibits(), {memory.problem for memory in reminders.due_memories(studio.space)}
    nodes = list[Node]()
    columns: dict[str, int] = {}
    entries, on_path = studio.space.entries(), studio.space.path.problems
    for problem in problems:
        part = catalog.part_of(problem)
        column = columns[part] = columns.get(part, -1) + 1
        best = progress.get(problem.name, Progress()).score
        is_next = problem is next_problem
        shown = exhibits.get(str(problem.name))
        played = shown.title if shown else ""
        standing, is_due = standings[problem.name], str(problem.name) in due
        why_changed = studio.space.why_changed(problem) if standing.state == CHANGED else ""
        lowest = records.best(records.counted(entries, problem)).get(WORK.name)
        work = lowest.figures[WORK.name] if lowest else 0
        nodes.append(
            Node(
                problem, len(columns) - 1, column, standing, why_changed, best, is_next, is_due, played,
                problem in on_path, work,
            )
        )  # fmt: skip
    return nodes


def _tasks(studio: Studio) -> dict[str, list[tuple[Task, str]]]:
    """Returns the open tasks by part, each with the learner's class, or an empty text."""
    found: dict[str, list[tuple[Task, str]]] = {}
    entries = studio.space.entries()
    for task in tasks.tasks():
        best = tasks.best(task, entries)
        found.setdefault(tasks.part_of(task), []).append((task, best.standard if best else ""))
    return found


def _edges(nodes: dict[int, Node]) -> list[tuple[Node, Node, str]]:
    """Returns the edges between problems: the two nodes, and the path of a line between them in units of cells. Leaves
    out edges that others imply."""
    lines = []
    for node in nodes.values():
        direct = set(node.problem.builds_on)
        implied = {far for near in direct for far in _below(nodes, near)}
        lines += [(nodes[number], node, _path(nodes[number], node)) for number in sorted(direct - implied)]
    return lines


def _below(nodes: dict[int, Node], number: int) -> set[int]:
    """Returns the numbers of all problems that a problem builds on, directly or not."""
    direct = set(nodes[number].problem.builds_on)
    return direct.union(*(_below(nodes, other) for other in direct))


def _path(start: Node, end: Node) -> str:
    x1, y1, x2, y2 = start.column + 0.5, start.row + 0.5, end.column + 0.5, end.row + 0.5
    if y1 == y2 and x2 - x1 == 1:
        return f"M{x1} {y1}H{x2}"
    if y1 == y2:  # over the heads of those between
        return f"M{x1} {y1}C{x1} {y1 - 0.6} {x2} {y1 - 0.6} {x2} {y2}"
    middle = (y1 + y2) / 2
    return f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"


def _facts(studio: Studio, nodes: list[Node]) -> list[str]:
    """Returns a few words on each aspect of the learner's progress."""
    passed = sum(node.standing.passed for node in nodes)
    points = sum(node.standing.points for node in nodes)
    best = sum(node.best for node in nodes)
    possible = sum(node.problem.points for node in nodes)
    facts = [
        f"{passed} of {counted(len(nodes), 'problem')} passed",
        f"{points} of {possible} points{f', {best} at best' if best > points else ''}",
    ]
    minutes = int(sum(studio.history.seconds().values()) / 60)
    if minutes:
        spent = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        facts.append(f"{spent} of work")
    return facts


async def choose_path(request: Request) -> Response:
    """Notes the path that the learner has chosen."""
    studio: Studio = request.app.state.studio
    body = await read_json(request, name=str)
    await run_in_threadpool(lambda: studio.space.choose_path(paths.find(body["name"])))
    return Response(status_code=204)


routes = [Route("/", course_map), Route("/path", choose_path, methods=["POST"])]
