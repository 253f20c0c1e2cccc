"""A learner's review of a change: the folder with it, the answers so far, and what each of them costs.

The log knows all that counts. The folder holds the change, which is written again where it is missing, and the
learner's own files, which are only read.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from commandline.text import counted
from grader.changes import drawing, testing
from grader.changes.change import Change
from grader.changes.drawing import Plan, Proofs
from grader.changes.testing import Judged
from grader.course import catalog, forms, tasks
from grader.course.attempts import Attempt, Say, write_missing
from grader.course.scores import Told, Verbatim
from grader.course.workspace import Workspace, digest_of
from grader.isolation.sandbox import ForkServer, Workers
from grader.judge.submission import MAX_SIZE, UnreadableSubmissionError, python_text
from grader.task import Review

SOUND, FAULTY = "sound", "faulty"
MISTAKE, NO_TEST, RUN = 10, 5, 1  # points: of a hunk with the wrong verdict, of a fault without a test, of a run
COUNTED = 3  # changes; the score of a task is the mean of the last ones
HANDED_IN, TESTED = "handed in", "tested"
"""The kinds of entries of the log for a run with its new verdicts, and for the result of a test."""
FORM = "review.toml"


@dataclass(frozen=True)
class HandIn:
    """What the folder of a change holds, or what is new in it.

    Attributes:
        verdicts: Verdicts by number of the hunk.
        tests: The texts of tests by number of the hunk.
    """

    verdicts: dict[int, str] = field(default_factory=dict)
    tests: dict[int, str] = field(default_factory=dict)


class ChangeReview(Attempt[Review]):
    """A change that a learner got to review. The log holds the plan of the change, from which it follows."""

    @cached_property
    def plan(self) -> Plan:
        """What the change is made from."""
        return Plan.loads(self.begun.text("plan"))

    @cached_property
    def change(self) -> Change:
        """The change as it was given. Raises UsageError, and ends it, if the course no longer has it."""
        try:
            return _change(self.begun.text("plan"))
        except UsageError as error:
            self.end(None)
            raise UsageError(f"{error} It has ended; `grade task {self.task.label}` begins another one.") from None

    @property
    def folder(self) -> Path:
        """The folder with the change and the learner's files."""
        return self.space.folder / "changes" / f"{self.task.label}_{self.number}"

    @property
    def numbers(self) -> list[int]:
        """The numbers of the hunks."""
        return [hunk.number for _, hunk in self.change.hunks]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.entries(HANDED_IN))

    @cached_property
    def verdicts(self) -> dict[int, str]:
        """The learner's verdicts by number of the hunk, each as it was first handed in."""
        found: dict[int, str] = {}
        for run in self.entries(HANDED_IN):
            for verdict in (SOUND, FAULTY):
                found = {int(number): verdict for number in run.names(verdict)} | found
        return found

    @cached_property
    def tried(self) -> dict[int, str]:
        """The digests of the tests that were run last, by number of the hunk."""
        return {each.number("hunk"): each.text("digest") for each in self.entries(TESTED)}

    @cached_property
    def proved(self) -> set[int]:
        """The numbers of the hunks with a test that counts."""
        return {each.number("hunk") for each in self.entries(TESTED) if each.number("counts")}

    @property
    def points(self) -> int:
        """The points with which it ended, or would end now. Less is better. Giving up at once counts as a run."""
        if self.ended:
            return self.ended.number("points")
        accused = {number for number, verdict in self.verdicts.items() if verdict == FAULTY}
        mistakes = len(accused ^ self.change.faults.keys())
        untested = len((accused & self.change.faults.keys()) - self.proved)
        return MISTAKE * mistakes + NO_TEST * untested + RUN * max(1, self.runs)

    @property
    def counts(self) -> bool:
        """Whether it has ended and counts for the score. One without a fault does not, unless a hunk was accused:
        calling all hunks sound must not pay."""
        return bool(self.ended and self.ended.number("counts"))

    @property
    def is_complete(self) -> bool:
        """Whether each hunk has a verdict, and each fault that was found has a test that counts."""
        found = {number for number in self.change.faults if self.verdicts.get(number) == FAULTY}
        return len(self.verdicts) == len(self.numbers) and found <= self.proved

    def is_wrong(self, number: int) -> bool:
        """Returns whether the learner's verdict on a hunk is wrong. No verdict is not."""
        verdict = self.verdicts.get(number)
        return bool(verdict) and (verdict == FAULTY) != (number in self.change.faults)

    def write(self) -> None:
        """Writes the files of the change that are missing in its folder. Raises UsageError."""
        texts = {
            "change.diff": self.change.diff(),
            "description.md": description(self.task, self.change),
            FORM: _form(self.change, {}),
        }
        for file in self.change.files:
            texts |= {f"before/{file.name}": file.before, f"after/{file.name}": file.after}
        write_missing({self.folder / name: text for name, text in texts.items()})

    def written(self) -> HandIn:
        """Returns the verdicts and tests in the folder, handed in or not. Raises UsageError if a file cannot be read as
        it must be."""
        paths = {number: self.folder / f"test_{number}.py" for number in self.numbers}
        tests = {number: _test_text(path) for number, path in paths.items() if path.exists()}
        return HandIn(self._verdicts(), tests)

    def new(self) -> HandIn:
        """Returns what is new in the folder. Raises UsageError if a file cannot be read as it must be."""
        written = self.written()
        verdicts = {number: each for number, each in written.verdicts.items() if number not in self.verdicts}
        known = verdicts | self.verdicts
        open_ = {number for number in self.change.faults if known.get(number) == FAULTY} - self.proved
        tests = {
            number: text
            for number, text in written.tests.items()
            if number in open_ and _digest(text) != self.tried.get(number)
        }
        return HandIn(verdicts, tests)

    def keep(self, verdicts: Mapping[int, str], tests: Mapping[int, str]) -> None:
        """Writes verdicts and tests into the folder, and leaves the others there as they are. Raises UsageError."""
        if verdicts:
            files.write(self.folder / FORM, _form(self.change, self._verdicts() | dict(verdicts)))
        for number in tests.keys() & set(self.numbers):
            files.write(self.folder / f"test_{number}.py", tests[number])

    def run(
        self, new: HandIn, workers: Workers, say: Say = lambda text: None
    ) -> tuple["ChangeReview", dict[int, Judged]]:
        """Notes a run with its verdicts, then runs its tests, and notes what counts. A run that was killed continues.
        Returns the review with them, and what was found of each test by number of the hunk."""
        digests = [_digest(text) for text in new.tests.values()]
        known = {digest for run in self.entries(HANDED_IN) for digest in run.names("tests")}
        review, found = self, dict[int, Judged]()
        if new.verdicts or not known.issuperset(digests):
            sound, faulty = (
                [str(number) for number, verdict in new.verdicts.items() if verdict == each] for each in (SOUND, FAULTY)
            )
            review = self.note(HANDED_IN, sound=sound, faulty=faulty, tests=digests)
        for number, text in new.tests.items():
            fault = self.change.faults[number]
            say(f"running the test of hunk {number}")
            test = testing.of_text(fault.problem, f"test_{number}.py", text)
            near = [sister.broken for sister in self.plan.sisters_of(fault)]
            found[number] = testing.judge(fault.problem, test, fault.broken, near, workers, say)
            review = review.note(TESTED, hunk=number, digest=_digest(text), counts=int(found[number].counts))
        return review, found

    def close(self) -> "ChangeReview":
        """Ends it, with the score of the task if there are enough."""
        faults = self.change.faults
        missed = [number for number in faults if self.verdicts.get(number) != FAULTY]
        wrong = {file.problem.name for file, hunk in self.change.hunks if self.is_wrong(hunk.number)}
        right = [file.problem.name for file in self.change.files if file.problem.name not in wrong]
        counts = bool(faults or wrong)
        last = [each.points for each in self.all(self.space, self.task) if each.counts] + [self.points]
        is_scored = counts and len(last) >= COUNTED
        return self.end(
            round(sum(last[-COUNTED:]) / COUNTED) if is_scored else None,
            points=self.points,
            counts=int(counts),
            missed=[*(faults[number].misconception.name for number in missed), *sorted(wrong)],
            found=[*(fault.misconception.name for number, fault in faults.items() if number not in missed), *right],
        )

    def _verdicts(self) -> dict[int, str]:
        return read_form(self.folder / FORM, self.task, self.numbers)


def begin(space: Workspace, task: Review, seed: str, proofs: Proofs) -> ChangeReview:
    """Draws a change, notes it, and writes its folder. Raises UsageError if the learner has passed no problem that it
    can come from."""
    standings = space.standings()
    possible = drawing.problems(task)
    allowed = [problem for problem in possible if standings[problem.name].passed]
    if not allowed:
        labels = ", ".join(problem.label for problem in possible)
        raise UsageError(
            "A change shows nearly the solution of a problem, so it comes from problems that you have passed, and "
            + (f"you have passed none of {labels}." if possible else "this copy of the course has no solutions.")
        )
    plan = drawing.draw(allowed, ChangeReview.wanted(space, task), seed, proofs.is_fault)
    if wrong := next((file for file in plan.change().files if not proofs.is_right(file)), None):
        raise UsageError(f"{wrong.new} does not pass in problem {wrong.problem.label}; the course is not sound.")
    review = ChangeReview.begin(space, task, plan=plan.dumps())
    review.write()
    return review


def drawn(space: Workspace, task: Review, say: Say = lambda text: None) -> ChangeReview:
    """Begins a change by chance. Runs its programs. Raises UsageError."""
    with closing(ForkServer()) as workers, Proofs(workers, say) as proofs:
        return begin(space, task, os.urandom(4).hex(), proofs)


def hand_in(review: ChangeReview, *, give_up: bool, say: Say = lambda text: None) -> tuple[ChangeReview, Told]:
    """Runs what is new in the folder of a change, and ends the change if it is complete, or with `give_up`. Returns the
    review after it, and what to say. Raises UsageError."""
    new = HandIn() if give_up else review.new()
    is_run, judged = bool(new.verdicts or new.tests), dict[int, Judged]()
    if is_run:
        # A fork server of its own, from which nothing but these workers is forked.
        with closing(ForkServer()) as workers:
            review, judged = review.run(new, workers, say)
    if give_up or review.is_complete:  # also if a command was killed after the last test
        review = review.close()
    idle = () if is_run or review.ended else ("Nothing in the folder is new, so this was no run.",)
    passed = not give_up and bool(review.ended and review.task.standard(review.points))
    return review, Told((*lines(review, judged), *idle), as_json(review, judged), passed)


def step(space: Workspace, task: Review, *, give_up: bool, say: Say = lambda text: None) -> Told:
    """Begins a change if none is under way; otherwise judges what is new in its folder, or ends it. Raises
    UsageError."""
    review = ChangeReview.under_way(space, task)
    if review:
        review.write()
        return hand_in(review, give_up=give_up, say=say)[1]
    if give_up:
        raise UsageError(f"No change is under way. `grade task {task.label}` begins one.")
    review = drawn(space, task, say)
    change = review.change
    what = (
        f"{counted(change.size, 'changed line')} in {counted(len(change.hunks), 'hunk')}, all in {review.folder}. "
        f"Write your verdicts into {FORM} there, and a test_N.py for each faulty hunk; then `grade task {task.label}`. "
        f"`grade show {task.label}` explains it."
    )
    head = f"{task.title}, change {review.number}"
    return Told((head, description(task, change), Verbatim(change.diff()), what), as_json(review, {}))


def lines(review: ChangeReview, judged: Mapping[int, Judged]) -> Iterator[str]:
    """Yields the lines of a report: on each hunk with a verdict, and on what is still to do or, at the end, on each
    fault and the score."""
    task, change = review.task, review.change
    for file, hunk in change.hunks:
        number = hunk.number
        if verdict := review.verdicts.get(number):
            mark = "wrong" if review.is_wrong(number) else "right"
            yield f"Hunk {number} ({file.name}): {verdict}, which is {mark}.{_of_test(review, number, judged)}"
        elif review.ended:
            yield f"Hunk {number} ({file.name}): no verdict."
    if not review.ended:
        if open_ := [number for number in review.numbers if number not in review.verdicts]:
            yield f"Without a verdict: {', '.join(map(str, open_))}."
        yield f"{counted(review.runs, 'run')} so far. `grade task {task.label} --give-up` shows the faults."
        return
    for number, fault in change.faults.items():
        yield f"The fault in hunk {number}: {fault.misconception.name}. {fault.misconception.advice}"
    if not change.faults:
        yield "This change had no fault."
    yield f"{counted(review.points, 'point')}, {task.standard(review.points) or 'in no class'}."
    if not review.counts:
        yield "It does not count for the score of the task, because calling all of it sound needs no skill."
    ended = [each for each in ChangeReview.all(review.space, task) if each.counts]
    if len(ended) < COUNTED:
        yield f"The score of the task is the mean of your last {COUNTED} changes that count; you have {len(ended)}."
    elif best := tasks.best(task, review.space.entries()):
        mean = best.scores[-1]
        yield f"The mean of your last {COUNTED} changes that count is {mean}: {task.standard(mean) or 'in no class'}."
    yield f"`grade task {task.label}` draws the next change."


def _of_test(review: ChangeReview, number: int, judged: Mapping[int, Judged]) -> str:
    """Returns what is known of the test of a hunk, as a sentence after a space; empty if it needs none."""
    if number not in review.change.faults or review.verdicts[number] != FAULTY:
        return ""
    if number in judged:
        return f" {judged[number].says}"
    if number in review.proved:
        return " Its test counts."
    return f" test_{number}.py {'does not count yet' if number in review.tried else 'is missing'}."


def as_json(review: ChangeReview, judged: Mapping[int, Judged]) -> dict[str, Any]:
    """Returns the state of a change as other programs read it."""
    rows = [
        {
            "number": hunk.number,
            "file": file.name,
            "verdict": review.verdicts.get(hunk.number),
            "right": not review.is_wrong(hunk.number) if hunk.number in review.verdicts else None,
            "test": judged[hunk.number].says if hunk.number in judged else None,
            "counts": hunk.number in review.proved,
        }
        for file, hunk in review.change.hunks
    ]
    return {
        "change": review.number,
        "folder": str(review.folder.absolute()),
        "hunks": rows,
        "runs": review.runs,
        "ended": bool(review.ended),
        "points": review.points if review.ended else None,
        "class": review.task.standard(review.points) or None if review.ended else None,
    }


def description(task: Review, change: Change) -> str:
    """Returns what the author of a change says about it: a text for each file, by the style that it gets."""
    texts = descriptions(task)
    said = (texts[file.problem.name][file.new.removesuffix(".py")] for file in change.files)
    return "\n\n".join(f"`{file.name}`: {text}" for file, text in zip(change.files, said, strict=True)) + "\n"


def descriptions(task: Review) -> dict[str, dict[str, str]]:
    """Returns what authors say about each style, by problem and name of the style. Raises CourseError."""
    return tomllib.loads(catalog.text_of(task.folder / "descriptions.toml"))


@lru_cache(maxsize=8)
def _change(plan: str) -> Change:
    """Returns the change of a plan in the log. Raises UsageError."""
    return Plan.loads(plan).change()


def _form(change: Change, verdicts: Mapping[int, str]) -> str:
    """Returns the file that the learner fills in, with these verdicts."""
    lines = [
        '# Your verdict on each hunk of change.diff: "sound" or "faulty". Leave it empty while you are unsure:',
        "# a verdict counts as you first hand it in. For each faulty hunk N, write test_N.py beside this file.",
        "",
        *(f'{hunk.number} = "{verdicts.get(hunk.number, "")}"  # {file.name}' for file, hunk in change.hunks),
    ]
    return "\n".join(lines) + "\n"


def read_form(path: Path, task: Review, numbers: Sequence[int]) -> dict[int, str]:
    """Returns the verdicts in a learner's `review.toml`, without those that are empty. Raises UsageError."""
    form, rule = forms.read(path, task).only(*map(str, numbers)), f'is "{SOUND}" or "{FAULTY}"'
    found = {number: form.value(str(number), rule, (None, "", SOUND, FAULTY).__contains__) for number in numbers}
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
