"""The layouts in which submissions arrive: one folder per learner, what was handed in to a hub, or an unmodified
Gradescope, Canvas or Moodle export."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import yaml

from commandline.text import counted, one_line
from grader.batch import hand_ins
from grader.batch.archive import File, RefusedFileError, is_archive, without_suffix
from grader.batch.hand_ins import HandIn
from grader.judge.submission import MAX_SIZE

FOLDERS = "folders"  # the layout of one folder per learner
_METADATA = "submission_metadata.yml"
# Canvas: sortable name, `LATE`, user id, attachment id, file name (lib/content_zipper.rb of canvas-lms).
_CANVAS = re.compile(r"(?P<name>.+?)_(?P<late>LATE_)?(?P<user>\d{1,18})_(?P<upload>\d{1,18})_(?P<file>.+)")
# An anonymous export of Canvas: the id of the assignment's own that stands for the student, attachment id, file name.
_ANONYMOUS = re.compile(
    r"anon_(?P<late>LATE_)?(?P<user>[A-Za-z0-9]{1,20})_(?:(?P<late_too>LATE)_)?(?P<upload>\d{1,18})_(?P<file>.+)"
)
_TEST_STUDENT = "studenttest"  # Canvas' "Student, Test" as its exports name it
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<user>\d{1,18})_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)")
_LOADER = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # the one in Python takes minutes for the metadata of a large class


@dataclass(frozen=True)
class Stamp:
    """The record of an export about the submission of a file.

    `time` is in UTC, or local to the course system if it has no zone. `late` is the system's own mark. `upload` grows
    with each file that the system receives.
    """

    time: datetime | None = None
    late: bool = False
    upload: int = 0


@dataclass(frozen=True)
class SubmittedFile:
    """A file of a learner, with the stamp of the export. `members` names the group that handed it in; empty for one
    learner. `hand_in` is the attempt that it belongs to, where each attempt is kept."""

    file: File
    stamp: Stamp = Stamp()
    members: str = ""
    hand_in: HandIn | None = None


@dataclass
class Learner:
    """A learner's files. `ids` are the ids in the export, without any text that the learner chose.

    `canvas` holds the user id in Canvas if the export is from there.
    """

    ids: tuple[str, ...] = ()
    canvas: tuple[str, ...] = ()
    files: list[SubmittedFile] = field(default_factory=list)


@dataclass
class Export:
    """The learners by name. `layout` names the system, `notes` concern the class, `loose` are files of no learner."""

    layout: str
    learners: dict[str, Learner]
    notes: list[str]
    loose: list[File]


def read(listed: list[File], *, archive: bool) -> Export:
    """Returns the files by learner. The one folder that many archives have around everything is left out if
    `archive`."""
    if archive:
        listed = _without_top_folder(listed)
    at_the_top = {str(file.path): file for file in listed if len(file.path.parts) == 1}
    if hand_ins.MARK in at_the_top:
        return _handed_in(listed)
    metadata = at_the_top.get(_METADATA)
    return _gradescope(listed, metadata) if metadata else _by_name(listed)


def _without_top_folder(listed: list[File]) -> list[File]:
    tops = {file.path.parts[0] for file in listed}
    has_files = any(len(file.path.parts) == 2 and not is_archive(file.path) for file in listed)
    if len(tops) != 1 or min(len(file.path.parts) for file in listed) < 2 or (has_files and not _is_export(listed)):
        return listed
    return [_inside(file) for file in listed]


def _is_export(listed: list[File]) -> bool:
    forms = (_CANVAS, _ANONYMOUS)
    return any(file.path.name == _METADATA or any(form.fullmatch(file.path.name) for form in forms) for file in listed)


def _by_name(listed: list[File]) -> Export:
    learners: dict[str, Learner] = {}
    layouts, loose, tests = set(), list[File](), list[File]()
    for file in listed:
        first, has_folder = file.path.parts[0], len(file.path.parts) > 1
        if match := _MOODLE.fullmatch(first):
            layouts.add("Moodle")
            learner = learners.setdefault(f"{match['name']} ({match['user']})", Learner((match["user"],)))
            learner.files.append(SubmittedFile(_inside(file) if has_folder else _renamed(file, match["file"])))
        elif match := _ANONYMOUS.fullmatch(first):
            layouts.add("Canvas, anonymous")
            name = f"anon_{match['user']}"
            learner = learners.setdefault(name, Learner((name,)))
            late = bool(match["late"] or match["late_too"])
            learner.files.append(SubmittedFile(_renamed(file, match["file"]), Stamp(None, late, int(match["upload"]))))
        elif match := _CANVAS.fullmatch(first):  # a folder of that name is an archive that the teacher has unpacked
            layouts.add("Canvas")
            if match["name"] == _TEST_STUDENT:
                tests.append(file)
                continue
            user = (match["user"],)
            learner = learners.setdefault(f"{match['name']} ({match['user']})", Learner(user, user))
            own = _inside(file) if has_folder else _renamed(file, match["file"])
            learner.files.append(SubmittedFile(own, Stamp(None, bool(match["late"]), int(match["upload"]))))
        elif (
            has_folder or is_archive(file.path) or (file.refused and not file.path.suffix)
        ):  # a link in place of a folder
            layouts.add(FOLDERS)
            name = first if has_folder else without_suffix(file.path).name
            learner = learners.setdefault(name, Learner((name,)))
            learner.files.append(SubmittedFile(_inside(file) if has_folder else file))
        else:
            loose.append(file)
    notes = [f"{counted(len(tests), 'file')} of Canvas' Test Student left out"] if tests else list[str]()
    if any(name.endswith("anonymous") for name in layouts):
        notes.append("the export is anonymous, so marks are by anonymous id")
    return Export(" and ".join(sorted(layouts)), learners, notes, loose)


def _handed_in(listed: list[File]) -> Export:
    """Returns the attempts that the service of a hub has received."""
    learners, loose = dict[str, Learner](), list[File]()
    for file in listed:
        hand_in = hand_ins.parse(file.path.parent)
        if hand_in is None:
            loose += [file] * (str(file.path) != hand_ins.MARK)
            continue
        name = one_line(hand_in.learner)
        own = SubmittedFile(_inside(file), Stamp(hand_in.received), hand_in=hand_in)
        learners.setdefault(name, Learner((name,))).files.append(own)
    return Export("hub", learners, [], loose)


def _inside(file: File) -> File:
    return replace(file, path=PurePosixPath(*file.path.parts[1:]))


def _renamed(file: File, name: str) -> File:
    return replace(file, path=PurePosixPath(name or file.path.name))


@dataclass(frozen=True)
class _Person:
    """A submitter in Gradescope's metadata: the name for reports, and the student id or email address."""

    name: str
    id: str


@dataclass(frozen=True)
class _Submission:
    """A row of Gradescope's metadata."""

    people: Sequence[_Person]
    time: datetime | None = None


def _gradescope(listed: list[File], metadata: File) -> Export:
    """Returns the learners by name. A submission of several `:submitters:` counts for each of them."""
    try:
        rows = yaml.load(metadata.read(MAX_SIZE << 4).decode("utf-8"), _LOADER)  # noqa: S506  a safe loader
        submissions = {str(folder): _submission(str(folder), row) for folder, row in rows.items()}
        notes = []
    except (
        RefusedFileError, yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError, ValueError,
        RecursionError,
    ):  # fmt: skip
        submissions, notes = {}, [f"{_METADATA} cannot be read, so learners are named after their folders"]
    known = {(one.name, one.id or folder) for folder, row in submissions.items() for one in row.people}
    namesakes = Counter(name for name, _ in known)
    learners: dict[str, Learner] = {}
    loose = []
    for file in listed:
        folder = file.path.parts[0]
        if len(file.path.parts) == 1:
            loose += [file] * (file is not metadata)
            continue
        row = submissions.get(folder, _Submission([_Person(folder, "")]))
        names = [f"{one.name}, {folder}" if namesakes[one.name] > 1 else one.name for one in row.people]
        members = " and ".join(names) if len(names) > 1 else ""
        for name, person in zip(names, row.people, strict=True):
            learner = learners.setdefault(name, Learner((person.id,) if person.id else ()))
            learner.files.append(SubmittedFile(_inside(file), Stamp(row.time), members))
    return Export("Gradescope", learners, notes, loose)


def _submission(folder: str, row: Mapping[str, Any]) -> _Submission:
    people = [_person(person) for person in row[":submitters"]]
    time = row.get(":created_at")
    if isinstance(time, datetime):
        time = time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    named = [person for person in people if person.name] or [_Person(folder, "")]
    return _Submission(named, time if isinstance(time, datetime) else None)


def _person(person: Mapping[str, Any]) -> _Person:
    number = one_line(str(person.get(":sid") or person.get(":email") or ""))
    name = one_line(str(person.get(":name") or number))
    return _Person(f"{name} ({number})" if number and number != name else name, number)
