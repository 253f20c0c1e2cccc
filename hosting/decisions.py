"""What teachers decide on their page: more time for a learner, and gradings to repeat.

Several teachers may decide at once, and the service may be killed. So an extension is a line that is appended, and a
regrade a file of its own, which waits until the results have it.
"""

import json
import secrets
from collections.abc import Set
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

import yaml

from commandline import files
from commandline.errors import UsageError
from commandline.text import one_line
from grader.batch import deadlines
from grader.batch.records import folded
from grader.batch.results import DATABASE
from grader.batch.store import Store
from grader.course import catalog
from hosting.class_folder import ClassFolder, person_among
from hosting.inbox import Inbox


@dataclass(frozen=True)
class Regrade:
    """A request to grade again what learners have handed in for a problem.

    Attributes:
        learner: The user of the hub; empty for everybody.
        problem: The problem's name.
        by: The teacher.
        because: The reason.
    """

    learner: str
    problem: str
    by: str
    because: str


def extend(of: ClassFolder, inbox: Inbox, learner: str, problems: str, time: str, by: str, because: str) -> str:
    """Gives a learner more time, instead of what the learner had for these problems. Returns a sentence, which says so
    if the name is nobody's so far. Raises UsageError."""
    learner = one_line(learner.strip())
    if not learner:
        raise UsageError("Name the learner who gets more time.")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    line = deadlines.extension_line(learner, problems.strip(), time.strip(), by=by, at=at, because=_reason(because))
    of.rules()  # a file that somebody has to repair first is named
    try:
        files.append(of.extensions, line, durable=True)
    except OSError as error:
        raise UsageError(f"{of.extensions} cannot be written: {error.strerror}.") from None
    with of.stored() as stored:
        people = stored.people().values() if stored else ()
        names = {folded(name) for one in people for name in (one.learner, *one.ids)}
    unknown = folded(learner) not in names | {folded(one.learner) for one in inbox.all()}
    warning = f" Nobody called {learner} has handed in so far: check the name." if unknown else ""
    return f"{learner} has {time.strip()} more for {_said(problems.strip())}.{warning}"


def ask_regrade(of: ClassFolder, inbox: Inbox, regrade: Regrade) -> str:
    """Stores a request, which the next batch carries out. Returns a sentence. Raises UsageError."""
    problem = catalog.find(regrade.problem)
    who = regrade.learner or "Everybody"
    handed_in = [one for one in inbox.all() if one.problem == problem.name]
    if not any(regrade.learner in ("", one.learner) for one in handed_in):
        raise UsageError(
            f"{who} has handed in nothing for problem {problem.label}, so there is nothing to grade again."
        )
    request = Regrade(regrade.learner, problem.name, regrade.by, _reason(regrade.because))
    of.regrades.mkdir(0o700, exist_ok=True)
    name = f"{time_ns():020}-{secrets.token_hex(8)}.json"  # in order, and no two the same
    files.write(of.regrades / name, json.dumps(asdict(request)), durable=True)
    return f"{who}: problem {problem.label} is graded again."


def asked_regrades(of: ClassFolder) -> dict[Path, Regrade]:
    """Returns the requests that wait, by their files."""
    found = sorted(of.regrades.glob("*.json")) if of.regrades.is_dir() else []
    return {path: Regrade(**json.loads(path.read_text(encoding="utf-8"))) for path in found}


def record_regrades(of: ClassFolder) -> None:
    """Moves the requests into the results, where the next batch finds them. Only between two batches."""
    asked = asked_regrades(of)
    if asked and (of.results / DATABASE).is_file():
        with closing(Store.existing(of.results)) as store:
            people, submitters = store.people().values(), store.submitters()
            for one in asked.values():
                learners = [person_among(people, one.learner).learner] if one.learner else submitters
                for learner in learners:
                    store.request_regrade(learner, one.problem, f"{one.because} ({one.by})")
    for path in asked:  # without results, all is graded anyway
        path.unlink()


def forget(of: ClassFolder, names: Set[str]) -> None:
    """Deletes what teachers decided for a learner, whose folded names these are. Raises UsageError."""
    for path, asked in asked_regrades(of).items():
        if folded(asked.learner) in names:
            path.unlink()
    if of.extensions.is_file():
        # As it is read: without a type for scalars, because YAML 1.1 reads the id 0017 as 15.
        rows = yaml.load(of.extensions.read_text(encoding="utf-8-sig"), yaml.BaseLoader) or []  # noqa: S506
        kept = [row for row in rows if folded(row["learner"]) not in names]
        if len(kept) < len(rows):
            lines = (f"- {json.dumps(row, ensure_ascii=False)}\n" for row in kept)
            files.write(of.extensions, "".join(lines), durable=True)


def _reason(because: str) -> str:
    if not because.strip():
        raise UsageError("Say why, for the record.")
    return one_line(because.strip())


def _said(problems: str) -> str:
    return "all problems" if problems == deadlines.ALL else f"problem {problems}"
