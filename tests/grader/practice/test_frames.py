"""Frames: other correct programs from which a review takes the core. Each is unfinished without it and passes with
it."""

from collections.abc import Iterator

import pytest

from grader.course import catalog, imports
from grader.isolation.sandbox import ForkServer
from grader.judge import judge
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.practice import short_form
from grader.practice.short_form import Frame
from grader.problem import Problem

FIRST = 15  # problems, all of which have frames
EACH_TIME = 3  # one of so many frames of these runs each time
FRAMES = [(problem, frame) for problem in catalog.problems() for frame in short_form.frames(problem) if frame.name]


def in_turn() -> Iterator[object]:
    for place, (problem, frame) in enumerate(FRAMES):
        runs_each_time = problem.number <= FIRST and place % EACH_TIME == 0
        marks = [] if runs_each_time else [pytest.mark.thorough]
        yield pytest.param(problem, frame, marks=marks, id=frame.name)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def test_the_first_problems_and_many_others_have_frames():
    with_frames = {problem.number for problem, _ in FRAMES}
    assert set(range(1, FIRST + 1)) <= with_frames
    assert len(with_frames) >= 35


@pytest.mark.parametrize(("problem", "frame"), [*in_turn()])
def test_a_frame_is_unfinished_without_its_core_and_passes_with_it(problem: Problem, frame: Frame, server: ForkServer):
    options = GradeOptions(grade_imports=False, show=False)

    def graded(text: str) -> judge.Report:
        sources = imports.with_imports(problem.name, text, catalog.references(problem))
        return judge.grade(problem, Submission(f"{problem.name}.py", sources), server, options)

    assert short_form.FEWEST <= frame.count <= short_form.MOST
    assert frame.stub.count("raise NotImplementedError\n") == len(frame.blocks)
    verdicts = {result.verdict for result in graded(frame.stub).checks}
    assert Verdict.NOT_ATTEMPTED in verdicts
    assert verdicts <= {Verdict.NOT_ATTEMPTED, Verdict.PASS}
    assert graded(frame.text).verdict is Verdict.PASS
