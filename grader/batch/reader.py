"""The process that reads a class: it opens the export, and forks a confined process for each learner's files.

`messages` starts it and is the side of `grade batch`, in which no file of a learner is parsed.
"""

import json
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from commandline.cores import usable_cores
from commandline.errors import CommandError, UsageError
from grader.batch import archive, collect, confined, exports, recognize, similarity
from grader.batch.archive import File
from grader.batch.exports import FOLDERS, Export, Learner, SubmittedFile
from grader.batch.records import Known
from grader.batch.similarity import Tokens
from grader.course import catalog
from grader.errors import CourseError
from grader.isolation.libc import DEATH_SIGNAL, prctl
from grader.paths import ROOT
from grader.problem import Problem

Wanted = Literal["submissions", "sheets", "tokens", "known"]
TOKENIZING = 1  # second of computing for the files of a learner; honest ones take a fiftieth
MOST_READ = 20_000  # texts whose tokens are kept: a batch needs them to find equal code, and again to compare files
_waiting: subprocess.Popen[bytes] | None = None  # the reader, between two requests
_is_kept = False  # whether a reader waits for another request
_read: dict[str, Tokens | None] = {}  # by digest; None where they took too long
Send = Callable[..., None]

_START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.batch.reader import main; main()"


def messages(source: Path, wanted: Wanted, problems: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the messages of the reader: first the export with its learners, then the result of each learner.

    Raises CommandError.
    """
    return _ask(source=str(source), wanted=wanted, problems=[*problems])


def tokens(texts: Mapping[str, Mapping[str, str]]) -> dict[str, Tokens]:
    """Returns the tokens of each Python text. `texts` are by learner, then by a digest, which is the key of the result.

    The texts of a learner are missing if they take too long. No text is read twice, not even one that took too long.
    """
    if len(_read) > MOST_READ:
        _read.clear()
    asked = {
        learner: unread
        for learner, own in texts.items()
        if (unread := {key: text for key, text in own.items() if key not in _read})
    }
    for message in _ask(source="the files", wanted="tokens", texts=asked) if asked else ():
        _read.update((key, Tokens(code, frozenset(found))) for key, (code, found) in (message["value"] or {}).items())
    _read.update((key, None) for own in asked.values() for key in own if key not in _read)
    return {key: found for own in texts.values() for key in own if (found := _read.get(key))}


def known(source: Path, problems: Sequence[str], failed: Callable[[str], None]) -> Iterator[Known]:
    """Yields the solutions of these problems in a folder or an archive: files, folders of them, or an export of earlier
    submissions.

    Calls `failed` with a sentence on each that cannot be read. Raises CommandError.
    """
    for message in messages(source, "known", problems):
        own = message["learner"]  # or a loose file
        if message["failed"] or message["fault"]:
            failed(f"{source / own} is not compared: {message['failed'] or message['error']}")
        for problem, path, sequences, reason in message["value"] or ():
            name = str(source / own if path == own else source / own / path)
            if reason:
                failed(f"{name} is not compared: {reason}")
            else:
                yield Known(problem, name, frozenset(sequences))


@contextmanager
def kept() -> Iterator[None]:
    """Keeps the reader for further requests until the end of the context: its imports take longer than its work."""
    global _waiting, _is_kept
    _is_kept = True
    try:
        yield
    finally:
        _is_kept = False
        if _waiting:
            _end(_waiting)
        _waiting = None


def _ask(**fields: Any) -> Iterator[dict[str, Any]]:
    """Sends a request to a reader, which is started unless one is kept, and yields its messages. Raises
    CommandError."""
    global _waiting
    process, _waiting = _waiting, None
    if process is None:
        command = [sys.executable, "-P", "-c", _START]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None  # noqa: S101  because of PIPE
    assert process.stdout is not None  # noqa: S101
    try:
        with suppress(BrokenPipeError):  # it has ended
            process.stdin.write(json.dumps(fields).encode() + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            match json.loads(line):
                case {"end": True}:
                    if _is_kept:
                        _waiting = process
                    return
                case {"usage": message}:
                    raise UsageError(message)
                case {"course": message}:
                    raise CourseError(message)
                case message:
                    yield message
    finally:
        if _waiting is not process:
            _end(process)
    raise CommandError(f"{fields['source']} cannot be read: the process that reads it has ended.")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(BrokenPipeError), process:  # what it did not read is left in the pipe
        pass


def main() -> None:
    """Reads requests from standard input, one in each line, and writes each message as a line of JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for this one
    if sys.platform == "linux":
        prctl(DEATH_SIGNAL, signal.SIGKILL)

    def send(**message: Any) -> None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()

    for line in sys.stdin.buffer:
        _carry_out(json.loads(line), send)


def _carry_out(request: Mapping[str, Any], send: Send) -> None:
    source = Path(request["source"])
    try:
        if request["wanted"] == "tokens":
            works = ((name, partial(similarity.read, own)) for name, own in request["texts"].items())
            _send_each([], works, send, TOKENIZING)
        elif request["wanted"] == "sheets":
            _sheets(source, send)
        elif request["wanted"] == "known":
            _known(source, request["problems"], send)
        else:
            _submissions(source, request["problems"], send)
    except UsageError as error:
        send(usage=str(error))
    except CommandError as error:
        send(course=str(error))
    except MemoryError:
        send(usage=f"{source} is too large to be read in the memory of this machine.")
    except Exception:
        traceback.print_exc()
        raise
    send(end=True)


def _submissions(source: Path, names: Sequence[str], send: Send) -> None:
    export = _export(source)
    learners = {name: _few(learner) for name, learner in export.learners.items()}
    if source.is_dir() and export.layout in ("", FOLDERS):
        export.layout = FOLDERS
        for name in _empty_folders(source):
            learners.setdefault(name, Learner((name,)))  # who has submitted nothing
    if not learners:
        raise UsageError(
            f"{source} has no learners' folders. Give one folder per learner, or an export of Gradescope, Canvas or "
            "Moodle."
        )
    problems = [catalog.load(name) for name in names] or _submitted(source, learners)
    catalog.problems()  # all definitions: the processes below cannot read the course
    send(
        layout=export.layout,
        people=[(name, own.ids, own.canvas) for name, own in learners.items()],
        problems=[problem.name for problem in problems],
        loose=[str(file.path) for file in export.loose],
        notes=export.notes,
    )
    works = ((name, partial(collect.collected, name, learner, problems)) for name, learner in learners.items())
    _send_each([source], works, send)


def _sheets(source: Path, send: Send) -> None:
    export = _export(source)
    people = [(name, own.ids, own.canvas) for name, own in export.learners.items()]
    send(layout=export.layout or FOLDERS, people=people, notes=export.notes)
    works = ((name, partial(collect.sheet, _few(learner))) for name, learner in export.learners.items())
    _send_each([source], works, send)


def _known(source: Path, names: Sequence[str], send: Send) -> None:
    export = _export(source)
    problems = [catalog.load(name) for name in names]
    catalog.problems()  # all definitions: the processes below cannot read the course
    # A loose file is read alone, so that it costs no other one its comparison.
    loose = ((str(file.path), Learner(files=[SubmittedFile(file)])) for file in export.loose)
    each = [*((name, _few(learner)) for name, learner in export.learners.items()), *loose]
    _send_each([source], ((name, partial(collect.known, own, problems)) for name, own in each), send)


def _send_each(
    readable: Sequence[Path], works: Iterator[tuple[str, Callable[[], Any]]], send: Send, computing: int | None = None
) -> None:
    for name, result in confined.each(works, readable, usable_cores(), computing):
        if result.refused:
            raise CourseError(result.refused)
        failed = f"its files {result.failed}" if result.failed else ""
        send(learner=name, value=result.value, failed=failed, fault=result.fault, error=result.error)


def _export(source: Path) -> Export:
    return exports.read(archive.files(source), archive=not source.is_dir())


def _few(learner: Learner) -> Learner:
    """Returns the learner, with one refused file in place of too many files. An export unpacks the archives that
    learners hand in."""
    most = archive.MOST_INNER_FILES
    if len(learner.files) <= most:
        return learner
    first = learner.files[0].file.path
    refused = File(first, lambda size: b"", f"is one of {len(learner.files):,} files; the limit is {most:,}")
    return Learner(learner.ids, learner.canvas, [SubmittedFile(refused, learner.files[0].stamp)])


def _empty_folders(source: Path) -> list[str]:
    """Returns the names of the folders in which there is nothing at all."""
    folders = (path for path in source.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != ".")
    return [folder.name for folder in folders if not any(folder.iterdir())]


def _submitted(source: Path, learners: Mapping[str, Learner]) -> list[Problem]:
    """Returns the problems that at least one learner submitted a file for. Raises UsageError if there is none.

    The definitions in files count only if no file of the class has the name of a problem: a helper is no submission.
    Files that cannot be read are skipped here, and handled again with their learners.
    """
    catalog.problems()
    for recognized, most in ((collect.named, None), (recognize.by_definitions, recognize.MOST_SEARCHED)):
        works = ((name, partial(collect.recognized, learner, recognized, most)) for name, learner in learners.items())
        names = {name for _, result in confined.each(works, [source], usable_cores()) for name in result.value or ()}
        if names:
            return [catalog.load(name) for name in sorted(names)]
    raise UsageError(f"No submission in {source} matches a problem; files must be named like {catalog.names()[0]}.py.")
