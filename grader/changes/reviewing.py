"""A learner's review of a change: the folder with it, the answers so far, and what each of them costs.

The log knows all that counts. The folder holds the change, which is written again where it is missing, and the
learner's own files, which are only read.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from commandline.text import counted
from grader.changes import drawing, testing
from grader.changes.change import Change
from grader.changes.drawing import Plan, Proofs
from grader.changes.testing import Judged
from grader.course import catalog, tasks
from grader.course.log import Entry
from grader.course.workspace import Workspace, digest_of
from grader.isolation.sandbox import Workers
from grader.judge.submission import MAX_SIZE, UnreadableSubmissionError, python_text
from grader.task import Review

FOLDER = "changes"
SOUND, FAULTY = "sound", "faulty"
MISTAKE, NO_TEST, RUN = 10, 5, 1  # points: of a hunk with the wrong verdict, of a fault without a test, of a run
COUNTED = 3  # changes; the score of a task is the mean of the last ones
KIND, ENDED = "change", "change ended"


@dataclass
class UnderWay:
    """One change, as the log of the learner records it.

    Attributes:
        id: The id of its first entry in the log.
        task: The name of the open task.
        number: Its place among the changes of the task that the learner began, from 1 on.
        plan: What it is made from.
        verdicts: The learner's verdicts by number of the hunk, each as it was first handed in.
        tried: The digests of the tests that were run, by number of the hunk.
        proved: The numbers of the hunks with a test that counts.
        runs: The number of runs.
        ended: Whether it has ended.
        points: The points with which it ended.
        counts: Whether it counts for the score. One without a fault does not, unless a hunk was accused: calling all
            hunks sound must not pay.
        overlooked: The names of the misconceptions that were overlooked, and of the problems with a wrong verdict.
        found: The names of the misconceptions that were found, and of the problems without a wrong verdict.
    """

    id: str
    task: str
    number: int
    plan: Plan
    verdicts: dict[int, str] = field(default_factory=dict)
    tried: dict[int, str] = field(default_factory=dict)
    proved: set[int] = field(default_factory=set)
    runs: int = 0
    ended: bool = False
    points: int = 0
    counts: bool = False
    overlooked: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    def add(self, entry: Entry) -> None:
        """Takes in a run, the result of a test, or the end."""
        for verdict in (SOUND, FAULTY):
            for number in _numbers(entry.names(verdict)):
                self.verdicts.setdefault(number, verdict)
        if entry.text("digest") and entry.number("hunk"):
            self.tried[entry.number("hunk")] = entry.text("digest")
            self.proved |= {entry.number("hunk")} if entry.number("counts") else set()
        self.runs += entry.number("run")
        if entry.kind == ENDED:
            self.ended, self.points = True, entry.number("points")
            self.counts = entry.number("counts") == 1
            self.overlooked, self.found = entry.names("overlooked"), entry.names("found")


def recorded(entries: Sequence[Entry], task: str) -> list[UnderWay]:
    """Returns the changes of a task in a log, ended or not, in the order in which they began."""
    noted = [entry for entry in entries if entry.kind in (KIND, ENDED) and entry.problem == task]
    found: dict[str, UnderWay] = {}
    for entry in noted:
        if not entry.text("begun"):
            rows = [tuple(row.split(" ")) for row in entry.names("files")]
            pairs = [row.partition(":") for row in entry.names("sisters")]
            faults = entry.names("faults")
            kin = {fault: tuple(other for first, _, other in pairs if first == fault) for fault in faults}
            chosen = tuple((row[0], row[1], row[2]) for row in rows if len(row) == 3)
            plan = Plan(entry.text("seed"), chosen, faults, kin)
            found[entry.id] = UnderWay(entry.id, task, len(found) + 1, plan)
    for entry in noted:
        if entry.text("begun") in found:
            found[entry.text("begun")].add(entry)
    return list(found.values())


@dataclass(frozen=True)
class HandIn:
    """What the folder of a change holds that was not handed in before.

    Attributes:
        verdicts: New verdicts by number of the hunk.
        tests: The texts of new tests by number of the hunk.
    """

    verdicts: dict[int, str]
    tests: dict[int, str]


@dataclass(frozen=True)
class ReviewSpace:
    """The changes of a learner in an open task."""

    home: Workspace
    task: Review

    def all(self) -> list[UnderWay]:
        """Returns all changes of the task, in the order in which they began."""
        return recorded(self.home.entries(), self.task.label)

    def under_way(self) -> UnderWay | None:
        """Returns the change that has not ended."""
        return next((each for each in reversed(self.all()) if not each.ended), None)

    def folder(self, current: UnderWay) -> Path:
        return self.home.folder / FOLDER / f"{self.task.label}_{current.number}"

    def begin(self, seed: str, proofs: Proofs) -> UnderWay:
        """Draws a change, notes it, and writes its folder. Raises UsageError if the learner has passed no problem that
        it can come from, or has a change under way."""
        standings = self.home.standings()
        possible = drawing.problems(self.task)
        allowed = [problem for problem in possible if standings[problem.name].passed]
        if not allowed:
            labels = ", ".join(problem.label for problem in possible)
            raise UsageError(
                "A change shows nearly the solution of a problem, so it comes from problems that you have passed, and "
                + (
                    f"you have passed none of {labels}. Pass one, then repeat this command."
                    if possible
                    else "this copy of the course has no solutions."
                )
            )
        plan = drawing.draw(allowed, self._wanted(), seed, proofs.is_fault)
        if wrong := next((file for file in plan.change().files if not proofs.is_right(file)), None):
            raise UsageError(f"{wrong.new} does not pass in problem {wrong.problem.label}; the course is not sound.")
        self.home.record(
            KIND,
            self.task.label,
            seed=seed,
            files=[" ".join(row) for row in plan.files],
            faults=list(plan.faults),
            sisters=[f"{fault}:{sister}" for fault, kin in plan.sisters.items() for sister in kin],
        )
        current = self.under_way()
        assert current is not None  # noqa: S101  just noted
        self.write(current)
        return current

    def _wanted(self) -> list[str]:
        """Returns the names of misconceptions and problems that the learner got wrong and not right since."""
        wanted: dict[str, None] = {}
        for each in self.all():
            wanted = {name: None for name in wanted if name not in each.found}
            wanted |= dict.fromkeys(each.overlooked)
        return list(wanted)

    def change(self, current: UnderWay) -> Change:
        """Returns a change as it was given. Raises UsageError, and ends it, if the course no longer has it."""
        try:
            return current.plan.change()
        except UsageError as error:
            self.home.record(ENDED, self.task.label, begun=current.id)
            raise UsageError(f"{error} It has ended; `grade task {self.task.label}` begins another one.") from None

    def write(self, current: UnderWay) -> None:
        """Writes the files of a change that are missing in its folder. Raises UsageError."""
        change, folder = self.change(current), self.folder(current)
        said = description(self.task, change)
        texts = {"change.diff": change.diff(), "description.md": said, "review.toml": _form(change, {})}
        for file in change.files:
            texts |= {f"before/{file.name}": file.before, f"after/{file.name}": file.after}
        for name, text in texts.items():
            if not (folder / name).exists():
                files.write(folder / name, text)

    def written(self, current: UnderWay) -> HandIn:
        """Returns the verdicts and tests in the folder of a change, handed in or not. Raises UsageError if a file
        cannot be read as it must be."""
        numbers, folder = [hunk.number for _, hunk in self.change(current).hunks], self.folder(current)
        paths = {number: folder / f"test_{number}.py" for number in numbers}
        tests = {number: _test_text(path) for number, path in paths.items() if path.exists()}
        return HandIn(read_form(folder / "review.toml", numbers), tests)

    def keep(self, current: UnderWay, verdicts: Mapping[int, str], tests: Mapping[int, str]) -> None:
        """Writes verdicts and tests into the folder of a change, and leaves the others there as they are. Raises
        UsageError."""
        change, folder = self.change(current), self.folder(current)
        numbers = [hunk.number for _, hunk in change.hunks]
        if verdicts:
            known = read_form(folder / "review.toml", numbers)
            files.write(folder / "review.toml", _form(change, {**known, **verdicts}))
        for number, text in tests.items():
            if number in numbers:
                files.write(folder / f"test_{number}.py", text)

    def new(self, current: UnderWay) -> HandIn:
        """Returns what is new in the folder of a change. Raises UsageError if a file cannot be read as it must be."""
        written = self.written(current)
        verdicts = {number: each for number, each in written.verdicts.items() if number not in current.verdicts}
        known = verdicts | current.verdicts
        tests = {
            number: text
            for number, text in written.tests.items()
            if known.get(number) == FAULTY and number in self.change(current).faults and number not in current.proved
        }
        tried = current.tried
        return HandIn(verdicts, {number: text for number, text in tests.items() if _digest(text) != tried.get(number)})

    def run(
        self, current: UnderWay, new: HandIn, workers: Workers, say: Callable[[str], None] = lambda text: None
    ) -> dict[int, Judged]:
        """Notes a run with its verdicts, then runs its tests, and notes what counts. Returns what was found of each
        test by number of the hunk."""
        change = self.change(current)
        self._note(
            current,
            run=1,
            sound=[str(number) for number, verdict in new.verdicts.items() if verdict == SOUND],
            faulty=[str(number) for number, verdict in new.verdicts.items() if verdict == FAULTY],
        )
        found = {}
        for number, text in new.tests.items():
            fault = change.faults[number]
            say(f"running the test of hunk {number}")
            test = testing.of_text(fault.problem, f"test_{number}.py", text)
            near = [sister.broken for sister in current.plan.sisters_of(fault)]
            found[number] = testing.judge(fault.problem, test, fault.broken, near, workers, say)
            self._note(current, hunk=number, digest=_digest(text), counts=int(found[number].counts))
        if is_complete(current, change):
            self.end(current)
        return found

    def end(self, current: UnderWay) -> None:
        """Ends a change, and notes the score of the task if there are enough."""
        change = self.change(current)
        missed = [number for number in change.faults if current.verdicts.get(number) != FAULTY]
        wrong = {file.problem.name for file, hunk in change.hunks if is_wrong(current, change, hunk.number)}
        self._note(
            current,
            ENDED,
            points=points(current, change),
            counts=int(bool(change.faults or wrong)),
            overlooked=[*(change.faults[number].misconception.name for number in missed), *sorted(wrong)],
            found=[
                *(fault.misconception.name for number, fault in change.faults.items() if number not in missed),
                *(file.problem.name for file in change.files if file.problem.name not in wrong),
            ],
        )
        ended = [each.points for each in self.all() if each.counts][-COUNTED:]
        if current.counts and len(ended) == COUNTED:
            self.home.record(tasks.SCORED, self.task.label, score=round(sum(ended) / COUNTED))

    def _note(self, current: UnderWay, kind: str = KIND, **facts: object) -> None:
        current.add(self.home.record(kind, self.task.label, begun=current.id, **facts))


def is_wrong(current: UnderWay, change: Change, number: int) -> bool:
    """Returns whether the learner's verdict on a hunk is wrong. No verdict is not."""
    verdict = current.verdicts.get(number)
    return bool(verdict) and (verdict == FAULTY) != (number in change.faults)


def is_complete(current: UnderWay, change: Change) -> bool:
    """Returns whether each hunk has a verdict, and each fault that was found has a test that counts."""
    found = {number for number in change.faults if current.verdicts.get(number) == FAULTY}
    return len(current.verdicts) == len(change.hunks) and found <= current.proved


def points(current: UnderWay, change: Change) -> int:
    """Returns the points of a change, as if it ended now. Less is better. Giving up at once counts as a run."""
    accused = {number for number, verdict in current.verdicts.items() if verdict == FAULTY}
    mistakes = len(accused ^ change.faults.keys())
    untested = len((accused & change.faults.keys()) - current.proved)
    return MISTAKE * mistakes + NO_TEST * untested + RUN * max(1, current.runs)


def lines(space: ReviewSpace, current: UnderWay, change: Change, judged: Mapping[int, Judged]) -> Iterator[str]:
    """Yields the lines of a report: on each hunk with a verdict, and on what is still to do or, at the end, on each
    fault and the score."""
    task = space.task
    for file, hunk in change.hunks:
        number = hunk.number
        if verdict := current.verdicts.get(number):
            mark = "wrong" if is_wrong(current, change, number) else "right"
            yield f"Hunk {number} ({file.name}): {verdict}, which is {mark}.{_of_test(current, change, number, judged)}"
        elif current.ended:
            yield f"Hunk {number} ({file.name}): no verdict."
    if not current.ended:
        open_ = [hunk.number for _, hunk in change.hunks if hunk.number not in current.verdicts]
        if open_:
            yield f"Without a verdict: {', '.join(map(str, open_))}."
        yield f"{counted(current.runs, 'run')} so far. `grade task {task.label} --give-up` shows the faults."
        return
    for number, fault in change.faults.items():
        yield f"The fault in hunk {number}: {fault.misconception.name}. {fault.misconception.advice}"
    if not change.faults:
        yield "This change had no fault."
    worth = task.standard(current.points)
    yield f"{counted(current.points, 'point')}{f', {worth}' if worth else ', in no class'}."
    if not current.counts:
        yield "It does not count for the score of the task, because calling all of it sound needs no skill."
    ended = [each.points for each in space.all() if each.counts]
    if len(ended) < COUNTED:
        yield f"The score of the task is the mean of your last {COUNTED} changes that count; you have {len(ended)}."
    elif best := tasks.best(task, space.home.entries()):
        mean = best.scores[-1]
        yield f"The mean of your last {COUNTED} changes that count is {mean}: {task.standard(mean) or 'in no class'}."
    yield f"`grade task {task.label}` draws the next change."


def _of_test(current: UnderWay, change: Change, number: int, judged: Mapping[int, Judged]) -> str:
    """Returns what is known of the test of a hunk, as a sentence after a space; empty if it needs none."""
    if number not in change.faults or current.verdicts[number] != FAULTY:
        return ""
    if number in judged:
        return f" {judged[number].says}"
    if number in current.proved:
        return " Its test counts."
    return f" test_{number}.py {'does not count yet' if number in current.tried else 'is missing'}."


def as_json(space: ReviewSpace, current: UnderWay, change: Change, judged: Mapping[int, Judged]) -> dict[str, Any]:
    """Returns the state of a change as other programs read it."""
    rows = [
        {
            "number": hunk.number,
            "file": file.name,
            "verdict": current.verdicts.get(hunk.number),
            "right": not is_wrong(current, change, hunk.number) if hunk.number in current.verdicts else None,
            "test": judged[hunk.number].says if hunk.number in judged else None,
            "counts": hunk.number in current.proved,
        }
        for file, hunk in change.hunks
    ]
    return {
        "schema": 1,
        "task": space.task.label,
        "change": current.number,
        "folder": str(space.folder(current).absolute()),
        "hunks": rows,
        "runs": current.runs,
        "ended": current.ended,
        "points": current.points if current.ended else None,
        "class": space.task.standard(current.points) or None if current.ended else None,
    }


def description(task: Review, change: Change) -> str:
    """Returns what the author of a change says about it: a text for each file, by the style that it gets."""
    texts = descriptions(task)
    said = (texts[file.problem.name][file.new.removesuffix(".py")] for file in change.files)
    return "\n\n".join(f"`{file.name}`: {text}" for file, text in zip(change.files, said, strict=True)) + "\n"


def descriptions(task: Review) -> dict[str, dict[str, str]]:
    """Returns what authors say about each style, by problem and name of the style. Raises CourseError."""
    return tomllib.loads(catalog.text_of(task.folder / "descriptions.toml"))


def _form(change: Change, verdicts: Mapping[int, str]) -> str:
    """Returns the file that the learner fills in, with these verdicts."""
    lines = [
        '# Your verdict on each hunk of change.diff: "sound" or "faulty". Leave it empty while you are unsure:',
        "# a verdict counts as you first hand it in. For each faulty hunk N, write test_N.py beside this file.",
    ]
    for file, hunk in change.hunks:
        lines += ["", "[[hunk]]", f"number = {hunk.number}  # {file.name}"]
        lines += [f'verdict = "{verdicts.get(hunk.number, "")}"']
    return "\n".join(lines) + "\n"


def read_form(path: Path, numbers: Sequence[int]) -> dict[int, str]:
    """Returns the verdicts in a learner's `review.toml`, without those that are empty. Raises UsageError."""
    try:
        table = tomllib.loads(files.read_regular(path, MAX_SIZE).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, files.NotRegularFileError) as error:
        why = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else files.why_unreadable(error)
        raise UsageError(f"{path} {why}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None
    rows = table.get("hunk", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path} must have a table `[[hunk]]` for each hunk.")
    found: dict[int, str] = {}
    for row in rows:
        number, verdict = row.get("number"), row.get("verdict", "")
        if number not in numbers or number in found:
            raise UsageError(f"{path} has a hunk {number!r}; the change has hunks 1 to {max(numbers)}, each once.")
        if verdict not in ("", SOUND, FAULTY):
            raise UsageError(f'{path}: the verdict on hunk {number} is {verdict!r}; write "{SOUND}" or "{FAULTY}".')
        found[number] = verdict
    return {number: verdict for number, verdict in found.items() if verdict}


def _test_text(path: Path) -> str:
    """Returns the text of a learner's test. Raises UsageError."""
    try:
        return python_text(str(path), files.read_regular(path, MAX_SIZE + 1))
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
    except UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None


def _digest(text: str) -> str:
    return digest_of({"test": text})


def _numbers(texts: Sequence[str]) -> list[int]:
    return [int(text) for text in texts if text.isdecimal()]
