"""The log of a learner's progress: a file that is only appended to, and the progress that is derived from its entries.

Each line is one entry with an id of its own. So the logs of two machines merge as sets: concatenated, joined by git
with or without conflict marks, or copied beside each other under names that begin and end alike. Lines that hold no
entry are skipped.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from platform import python_version
from typing import Any

from commandline import files
from commandline.errors import UsageError

FILE = ".progress.jsonl"
FILES = ".progress*.jsonl"  # also the copies that programs which synchronize folders make of a file in conflict
OLD = ".progress.json"  # of versions before the log; its rows become entries of the log at the next write
_LARGEST = 1 << 26  # bytes
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LONG_AGO = "1970-01-01T00:00:00.000000Z"  # of old progress without a date

# Kinds of entries. `taken` is a row of an old file, and `started` names the course and the pages that were written.
# `scored` is the score of an open task, and `begun` says of what the learner's file is the beginning: its `form` is the
# core after a test-out, and the whole after a reset. All other kinds belong to `grader.practice`, and to
# attempts at open tasks.
PROGRESS = ("graded", "hints", "fix", "gave up", "taken", "begun")
WHOLE, CORE = "whole", "core"  # what is written: all of a program, or only its core
COUNTED = "counted"
"""The kind of an entry with what a program costs; see `grader.cost.records`."""


@dataclass(frozen=True)
class Entry:
    """One line of the log: the event, the problem, and the time (ISO 8601, UTC, with microseconds)."""

    id: str
    at: str
    kind: str
    problem: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.at)

    @property
    def day(self) -> date:
        """The day in the time zone of this machine."""
        return self.time.astimezone().date()

    def text(self, name: str) -> str:
        """Returns a fact that is text; empty if it is missing or damaged."""
        value = self.facts.get(name)
        return value if isinstance(value, str) and value.isprintable() else ""

    def number(self, name: str) -> int:
        """Returns a fact that is a whole number from 0; 0 if it is missing or damaged."""
        value = self.facts.get(name)
        return value if type(value) is int and value >= 0 else 0

    def names(self, name: str) -> tuple[str, ...]:
        """Returns a fact that is a list of texts, without those that are damaged."""
        value = self.facts.get(name)
        return (
            tuple(item for item in value if isinstance(item, str) and item.isprintable())
            if isinstance(value, list)
            else ()
        )

    def line(self) -> str:
        known = {"at": self.at, "id": self.id, "kind": self.kind, **({"problem": self.problem} if self.problem else {})}
        return json.dumps({**known, **self.facts}, separators=(",", ":")) + "\n"


@dataclass(frozen=True)
class Progress:
    """A learner's progress on one problem.

    Attributes:
        verdict: The best verdict so far; empty before the first grading.
        score: The best score so far.
        hints: The number of hints seen.
        given_up: Whether the learner has seen the solution without a pass.
        last_verdict: The verdict of the last grading; empty before the first, and in a file of an older version.
        last_score: The score of the last grading.
        stages: The number of stages of the problem that the last grading found passed.
        digest: Identifies the text that passed.
        passed_at: When it passed (ISO 8601, UTC).
        versions: The versions with which it passed.
        mistakes: The misconceptions that were named.
        fixes: Those of them whose remedy the learner has read.
        form: What the learner writes: the core after a test-out, else the whole.
        by_core: Whether the best verdict is a pass, and every pass so far was by the core alone.
    """

    verdict: str = ""
    score: int = 0
    hints: int = 0
    given_up: bool = False
    last_verdict: str = ""
    last_score: int = 0
    stages: int = 0
    digest: str = ""
    passed_at: str = ""
    versions: str = ""
    mistakes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    form: str = WHOLE
    by_core: bool = False

    @property
    def help(self) -> int:
        """The number of hints and remedies that the learner has read."""
        return self.hints + len(self.fixes)

    @property
    def attempted(self) -> bool:
        """Whether a file with more than the stub has been graded."""
        return self.verdict not in ("", "NOT ATTEMPTED")

    @classmethod
    def decode(cls, row: Any) -> "Progress":
        """Returns the progress in a row of an old file. A damaged row or value counts as missing."""
        values: dict[str, Any] = row if isinstance(row, dict) else {}
        sound = [each.name for each in fields(cls) if _is_sound(values.get(each.name), each.default)]
        return cls(**{name: values[name] for name in sound})

    def after(self, entry: Entry) -> "Progress":
        """Returns the progress after one more entry about the problem. A worse score does not replace a better one."""
        match entry.kind:
            case "graded":
                return self._graded(entry)
            case "hints":
                return replace(self, hints=max(self.hints, entry.number("count")))
            case "fix":
                idea = entry.text("idea")
                return self if idea in ("", *self.fixes) else replace(self, fixes=(*self.fixes, idea))
            case "gave up":
                return replace(self, given_up=True)
            case "begun":
                return replace(self, form=CORE if entry.text("form") == CORE else WHOLE)
            case "taken":
                row = Progress.decode(entry.facts.get("row"))
                best = self if self.verdict and self.score >= row.score else row
                given_up = self.given_up or row.given_up
                return replace(best, hints=max(self.hints, row.hints), given_up=given_up, form=self.form)
        return self

    def _graded(self, entry: Entry) -> "Progress":
        verdict, score, digest = entry.text("verdict"), entry.number("score"), entry.text("digest")
        if not verdict:
            return self
        named = [mistake] if (mistake := entry.text("mistake")) and mistake not in self.mistakes else []
        after = replace(
            self, last_verdict=verdict, last_score=score, stages=entry.number("stages"),
            mistakes=(*self.mistakes, *named),
        )  # fmt: skip
        if score < self.score:
            return after
        if verdict == "PASS" and (digest != self.digest or not self.passed_at):
            passed_at = f"{entry.at[:16]}+00:00"
            after = replace(after, digest=digest, passed_at=passed_at, versions=entry.text("versions"))
        by_core = verdict == "PASS" and self.form == CORE and (self.by_core or self.verdict != "PASS")
        return replace(after, verdict=verdict, score=score, by_core=by_core)


def read(folder: Path) -> list[Entry]:
    """Returns all entries of a workspace, in order of time, those of an old file included. Damaged lines count as
    missing."""
    found = {entry.id: entry for entry in taken(folder)}
    for path in sorted(folder.glob(FILES)):
        with suppress(OSError):
            status = path.lstat()
            found |= {entry.id: entry for entry in _read_file(path, status.st_mtime_ns, status.st_size)}
    return sorted(found.values(), key=lambda entry: (entry.at, entry.id))


@lru_cache(maxsize=8)
def _read_file(path: Path, modified: int, size: int) -> list[Entry]:
    """Returns the entries of a file. One command asks for them several times, so they are kept while the file stays the
    same."""
    try:
        data = files.read_regular(path, _LARGEST)
    except (OSError, files.NotRegularFileError):
        return []
    return parse(data.decode("utf-8", "replace"))


def parse(text: str) -> list[Entry]:
    """Returns the entries in the text of a log."""
    lines = [line for line in text.split("\n") if line.startswith("{")]
    try:
        rows = json.loads(f"[{','.join(lines)}]")  # at once, which is much faster
    except (ValueError, RecursionError):
        rows = [row for line in lines if (row := _parsed(line))]
    return [entry for row in rows if (entry := _decoded(row))]


def append(folder: Path, *entries: Entry) -> None:
    """Adds entries to the log of a workspace. Takes an old file over first. Raises UsageError."""
    path, old = folder / FILE, taken(folder)
    try:
        files.append(path, "".join(entry.line() for entry in (*old, *entries)), durable=bool(old))
        if old:
            (folder / OLD).unlink(missing_ok=True)
    except files.NotRegularFileError as error:
        raise UsageError(f"{path} {error}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def entry(kind: str, problem: str = "", **facts: Any) -> Entry:
    """Returns a new entry, which happened now. Facts that are empty are left out."""
    known = {name: value for name, value in facts.items() if value not in ("", None, [], {})}
    return Entry(os.urandom(8).hex(), now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), kind, problem, known)


_today: date | None = None


def set_today(day: date | None) -> None:
    """Makes that day today, for this process. For tests."""
    global _today
    _today = day


def now() -> datetime:
    """Returns the time in the time zone of this machine, on the day that `set_today` set."""
    time = datetime.now().astimezone()
    return datetime.combine(_today, time.time()).astimezone() if _today else time


def taken(folder: Path) -> list[Entry]:
    """Returns the progress in an old file as entries. Their ids depend on nothing but the file, so two machines take it
    over once."""
    try:
        stored = json.loads(files.read_regular(folder / OLD, _LARGEST).decode("utf-8"))
    except (OSError, files.NotRegularFileError, ValueError, RecursionError):
        return []
    stored = stored if isinstance(stored, dict) else {}
    rows = stored["problems"] if isinstance(stored.get("problems"), dict) else {}
    facts: list[tuple[str, str, dict[str, Any]]]
    facts = [("taken", name, {"row": vars(Progress.decode(row))}) for name, row in rows.items() if name.isprintable()]
    started = {name: stored[name] for name in ("course", "pages") if name in stored}
    if started and _parsed(json.dumps(started)):
        facts.append(("started", "", {"course": stored.get("course"), "pages": stored.get("pages")}))
    return [_old_entry(*each) for each in facts]


def _old_entry(kind: str, problem: str, facts: dict[str, Any]) -> Entry:
    passed_at = facts.get("row", {}).get("passed_at", "")
    at = f"{passed_at[:16]}:00.000000Z"
    digest = hashlib.sha256(json.dumps([kind, problem, facts], sort_keys=True).encode()).hexdigest()[:16]
    return Entry(digest, at if _TIME.fullmatch(at) else _LONG_AGO, kind, problem, facts)


def versions() -> str:
    """Returns the versions with which a file is graded now."""
    from importlib.metadata import version  # takes long to import

    packages = ", ".join(f"{name} {version(name)}" for name in ("gpt-kata", "jax", "flax"))
    return f"{packages}, Python {python_version()}"


def passed_texts(entries: Iterable[Entry]) -> set[str]:
    """Returns the digests of the texts of a problem that passed, other than by their core alone."""
    found, form = set[str](), WHOLE
    for each in entries:
        if each.kind == "begun":
            form = each.text("form")
        elif each.kind == "graded" and each.text("verdict") == "PASS" and form != CORE:
            found.add(each.text("digest"))
    return found


def by_problem(entries: Iterable[Entry]) -> dict[str, Progress]:
    """Returns the progress by problem name."""
    progress: dict[str, Progress] = {}
    for each in entries:
        if each.problem and each.kind in PROGRESS:
            progress[each.problem] = progress.get(each.problem, Progress()).after(each)
    return progress


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _decoded(row: Any) -> Entry | None:
    if not isinstance(row, dict):
        return None
    facts = dict(row)
    known = [facts.pop(name, "") for name in ("id", "at", "kind", "problem")]
    if not all(isinstance(value, str) and value.isprintable() for value in known):
        return None
    id_, at, kind, problem = known
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return None
    return Entry(id_, at, kind, problem, facts) if id_ and kind and _TIME.fullmatch(at) else None


def _is_sound(value: Any, default: Any) -> bool:
    """Returns whether a stored value can be used: it has the type of the default, is not negative, and can be
    printed."""
    if type(value) is not type(default):
        return False
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, int) and value >= 0
