"""The page for teachers: who handed in what, the verdicts, the marks on their way, and the tables of the class. Its
forms grade again, give more time, and send marks.

Without `HUB_SUBDOMAINS`, learners' servers share a host with it. So the page is of no origin, and no script of another
page can read it. The secret in its forms takes the place of a cookie, which a browser would not send with them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response

from commandline.errors import CommandError
from commandline.problem_name import ProblemName
from grader.batch.deadlines import Deadlines
from grader.batch.hand_ins import HandIn
from grader.batch.records import whole
from grader.course import catalog
from hosting import decisions
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox
from hosting.lti.outbox import remedy
from hosting.marks import Marks

_MOST_SHOWN = 200  # attempts
_LOG = 3000  # characters of the last batch's
_SHOWN = (".csv", ".html")  # of the results; the seed and the database stay where they are
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_PAGE = f"sandbox allow-forms allow-downloads; {_POLICY}"
# The page of a class shows names and texts of learners. As of another origin, it could do nothing with them.
_SANDBOX = f"sandbox allow-scripts; {_POLICY}; form-action 'none'; script-src 'unsafe-inline'; img-src data:"

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def page(
    of: ClassFolder, inbox: Inbox, waiting: Sequence[HandIn], marks: Marks | None, **about_the_session: str
) -> Response:
    """Returns the page. The session's values are the `prefix` of addresses, the secret of its forms, and what is to be
    `said`."""
    every = inbox.all()
    rules, troubles = Deadlines(), list[str]()
    try:
        rules = of.rules()
    except CommandError as error:
        troubles.append(str(error))
    if marks and marks.trouble:
        troubles.append(marks.trouble)
    newest = sorted(every, key=lambda one: one.received, reverse=True)[:_MOST_SHOWN]
    with of.stored() as stored:
        results = stored.by_time() if stored else {}
    html = _TEMPLATES.get_template("class.html").render(
        name=of.folder.name,
        count=len(every),
        learners=sorted({one.learner for one in every} | set(marks.tool.enrollments.enrolled() if marks else ())),
        waiting=len(waiting),
        troubles=troubles,
        marks=_marks(marks, rules) if marks else None,
        files=_files(of),
        problems=[ProblemName(name).label for name in sorted({one.problem for one in every})],
        regrades=[_said(one) for one in decisions.asked_regrades(of).values()],
        extensions=_extensions(of, rules),
        rows=[_row(one, results, rules.timezone) for one in newest],
        log=of.log.read_text(encoding="utf-8", errors="replace")[-_LOG:] if of.log.is_file() else "",
        **about_the_session,
    )
    return HTMLResponse(html, headers=_headers(_PAGE))


def file(of: ClassFolder, name: str) -> Response:
    """Returns a table or a page of the results. Raises HTTPException 404 if there is none of that name."""
    if name not in _files(of):
        raise HTTPException(404, "There is no such file.")
    path = of.results / name
    if path.suffix == ".html":
        return FileResponse(path, headers=_headers(_SANDBOX))
    return FileResponse(path, filename=name, headers=_headers(_POLICY))


def _headers(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }  # fmt: skip


def _files(of: ClassFolder) -> list[str]:
    found: Sequence[Path] = sorted(of.results.iterdir()) if of.results.is_dir() else ()
    return [path.name for path in found if path.suffix in _SHOWN and path.is_file() and not path.is_symlink()]


def _marks(marks: Marks, rules: Deadlines) -> dict[str, Any]:
    every = marks.tool.outbox.marks()
    return {
        "holds": rules.policy.holds_marks,
        "sent": sum(mark.state == "sent" for mark in every),
        "left": [
            (
                mark.learner, ProblemName(mark.problem).label, f"{whole(mark.points):g} of {whole(mark.maximum):g}",
                mark.state, mark.reason, remedy(mark),
            )
            for mark in every
            if mark.state != "sent"
        ],
        "courses": [course for course in marks.tool.enrollments.courses() if course.memberships],
        "unknown": sorted(marks.unknown.items()),
    }  # fmt: skip


def _said(one: decisions.Regrade) -> str:
    return f"{one.learner or 'everybody'}, problem {ProblemName(one.problem).label}: {one.because} ({one.by})"


def _extensions(of: ClassFolder, rules: Deadlines) -> list[tuple[str, ...]]:
    return [
        (learner, label or "all", str(time).removesuffix(", 0:00:00"), _due(of, learner, label))
        for learner, own in sorted(rules.extensions.items())
        for label, time in sorted(own.items())
        if time
    ]


def _due(of: ClassFolder, learner: str, label: str) -> str:
    """Returns the date until which a learner has time; empty if that depends on the problem, or if there is none."""
    dates = of.dates(learner)
    due = dates.rules.due_for(dates.names, catalog.find(label).name) if label.isdecimal() else None
    return _shown(due, dates.rules.timezone) if due else ""


def _row(one: HandIn, results: Mapping[str, tuple[str, int, int]], zone: tzinfo) -> tuple[str, ...]:
    verdict, score, points = results.get(one.received.isoformat(), ("", 0, 0))
    said = f"{verdict}, {score} of {points}" if verdict else "waits"
    return _shown(one.received, zone), one.learner, ProblemName(one.problem).label, said


def _shown(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"
