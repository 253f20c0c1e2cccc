"""Judges a test of a learner's: it must pass on right programs, and fail on a fault and on others like it.

The test runs in a process of its own for each program. It asks the program in another process, so it knows nothing of
it but numbers. The programs come in a random order.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grader.course import catalog
from grader.isolation.sandbox import Workers
from grader.judge import submission
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Session
from grader.practice import run_program
from grader.problem import Problem
from grader.wire.channel import Frame

EXTENSION = "grader.worker.pieces"
FEWEST_RIGHT = 4  # runs on right programs, and TWICE on the fault: what fails by chance does not count
TWICE = 2
MOST_SISTERS = 4


@dataclass(frozen=True)
class Trial:
    """The result of a test on a program.

    Attributes:
        failure: Why the test failed; None if it passed.
        of_piece: The last error that the program raised; None if it raised none.
    """

    failure: Failure | None
    of_piece: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether the test failed only because its process did not live to the end of it."""
        return self.failure is not None and self.failure.kind not in ("raised", "bad_output", "tracer")


@dataclass(frozen=True)
class Judged:
    """Whether a test counts, and the reason in a sentence."""

    counts: bool
    says: str


def right_programs(problem: Problem) -> list[str]:
    """Returns the reference and the correct programs in other styles."""
    return [catalog.solution_text(problem), *map(catalog.text_of, catalog.styles(problem))]


def judge(
    problem: Problem,
    test: Submission,
    fault: str,
    sisters: Sequence[str],
    workers: Workers,
    say: Callable[[str], None] = lambda text: None,
) -> Judged:
    """Returns whether a test counts. `fault` is a program with the fault at hand, and `sisters` are others with a fault
    like it. Stops at the first right program on which the test fails. Raises CourseError, WorkerStartError."""
    chance = random.SystemRandom()
    right = right_programs(problem)
    right += [chance.choice(right) for _ in range(FEWEST_RIGHT - len(right))]
    queue = [("right", text) for text in right] + [("fault", fault)] * TWICE
    queue += [("sister", text) for text in chance.sample(list(sisters), min(len(sisters), MOST_SISTERS))]
    chance.shuffle(queue)
    caught = {"fault": 0, "sister": 0}
    for number, (kind, text) in enumerate(queue, 1):
        say(f"program {number} of {len(queue)}")
        trial = tried(problem, test, text, workers)
        if trial.ended:
            assert trial.failure is not None  # noqa: S101  `ended` says so
            return Judged(False, f"Your test does not run to its end: {trial.failure.sentence()}.")
        if kind != "right":
            caught[kind] += trial.failure is not None
        elif trial.failure:
            return Judged(False, f"Your test fails on a right program: {_sentence(trial)}.")
    if caught["fault"] < TWICE:
        return Judged(False, "Your test passes on this fault.")
    others = sum(kind == "sister" for kind, _ in queue)
    if 2 * caught["sister"] < others:
        return Judged(
            False,
            f"Your test fails on {caught['sister']} of {others} programs with a fault of the same kind, and must fail "
            "on half of them: test what must hold, not these numbers.",
        )
    kin = f"{caught['sister']} of {others} programs with a fault of the same kind"
    return Judged(True, f"Your test counts: {kin} fail it.")


def _sentence(trial: Trial) -> str:
    assert trial.failure is not None  # noqa: S101  for callers with a failure
    cause = f" (the piece: {trial.of_piece.sentence()})" if trial.of_piece else ""
    return f"{trial.failure.sentence()}{cause}"


def tried(problem: Problem, test: Submission, program: str, workers: Workers) -> Trial:
    """Returns the result of a test on one program, each in a new process. Raises CourseError, WorkerStartError."""
    job = replace(submission.job(problem), extension=EXTENSION)
    asked, asking = (Session(problem, workers.worker(job), problem.timeout) for _ in range(2))
    of_piece: Failure | None = None

    def reply(question: Frame) -> Frame:
        nonlocal of_piece
        answer = asked.ask(Frame("stream", {"variant": "", "question": question.fields.get("question")}), "answer")
        if not isinstance(answer, Failure) and isinstance(end := asked.ask(None, "end"), Failure):
            answer = end
        if isinstance(answer, Failure):
            of_piece = answer
            # Nothing of its text: it could tell programs apart by their names and lines.
            return Frame("answer", {"refused": "the piece raised an error"})
        return answer

    try:
        if failure := asking.load("", test) or asked.load("", run_program.source_of(problem, program)):
            return Trial(failure)
        answer = asking.ask(Frame("stream", {"variant": ""}), "tested", "question")
        while isinstance(answer, Frame) and answer.kind == "question":
            answer = asking.ask(reply(answer), "tested", "question")
        return Trial(answer if isinstance(answer, Failure) else None, of_piece)
    finally:
        asking.worker.close()
        asked.worker.close()


def of_text(problem: Problem, name: str, text: str) -> Submission:
    """Returns the text of a test as a submission: a worker imports it in the place of the problem's module."""
    return Submission(name, {problem.name: text})
