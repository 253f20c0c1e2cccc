"""An open task: its page, the learner's best score and its class, and the scores over all attempts."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commandline.chart import Chart, Line, draw
from grader.course import catalog, tasks
from grader.course.tasks import Best
from grader.report.markdown_html import to_html
from grader.task import Diagnosis, Experiment, Review, Task
from studio.studio import Studio
from studio.view import render

# The further page of a task that is a folder, and what to do there.
_SCREENS = {
    Review: ("change", "Review a change"),
    Diagnosis: ("diagnosis", "Look at a run that went wrong"),
    Experiment: ("experiment", "Look at your claim and its runs"),
}
_LARGE, _SCALE = 1e9, {True: ("billion ", 1e9), False: ("", 1.0)}  # of scores on the axis


def page(request: Request) -> Response:
    """Returns the page."""
    studio: Studio = request.app.state.studio
    name = request.path_params["name"]
    if name not in tasks.names():
        raise HTTPException(404)
    task = tasks.find(name)
    title, text = catalog.page_text(task).split("\n", 1)
    best = tasks.best(task, studio.space.entries())
    values = {
        "task": task,
        "part": tasks.part_of(task),
        "title": title.lstrip("# "),
        "page": to_html(text),
        "best": best,
        "chart": _chart(task, best) if best else None,
        "screen": next((screen for kind, screen in _SCREENS.items() if isinstance(task, kind)), None),
        "filename": studio.space.file(task).name,
    }
    return render(request, "open_task.html", values)


def _chart(task: Task, best: Best) -> Chart | None:
    """Returns the scores by attempt, with the classes as lines to compare with."""
    unit, scale = _SCALE[task.standards[0].most >= _LARGE]
    scores = [(float(number), score / scale) for number, score in enumerate(best.scores, 1)]
    levels = {standard.name: standard.most / scale for standard in task.standards}
    line = Line("score", "k0", scores, has_dots=True)
    return draw(f"{unit}{task.unit} by attempt", [line], last_step=len(scores), levels=levels, axis="attempt")


routes = [Route("/tasks/{name:str}", page)]
