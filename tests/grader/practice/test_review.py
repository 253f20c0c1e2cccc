"""A review: its file, its clock, its end. The passed file stays as it is."""

import pytest

from commandline.errors import UsageError
from grader.course import catalog, log, predictions
from grader.course.workspace import Workspace
from grader.practice import review, schedule, short_form
from grader.practice.review import Clock, ReviewSpace

LOSS, HEADS = catalog.find("07"), catalog.find("03")
REFERENCE = catalog.solution_text(LOSS)


@pytest.fixture
def home(tmp_path) -> Workspace:
    """A workspace in which problem 07 was passed without a slip."""
    home = Workspace(tmp_path)
    home.file(LOSS).write_text(REFERENCE)
    home.remember(LOSS, verdict="PASS", score=LOSS.points)
    return home


def test_a_review_from_begin_to_end(home):
    space = ReviewSpace.of(home)
    file = space.add(LOSS)
    assert file == home.folder / "reviews" / f"{LOSS.name}.py"
    assert file.read_text() == catalog.stub_text(LOSS)
    assert space.add(LOSS) is None, "it is under way"
    space.remember(LOSS, verdict="FAIL", score=2, mistake="no shift")
    space.remember(LOSS, hints=1)
    assert not space.standing(LOSS).passed
    file.write_text(REFERENCE)
    space.remember(LOSS, verdict="PASS", score=LOSS.points)
    assert space.standing(LOSS).passed
    first, second = space.memory(LOSS).reviews
    assert (first.first, first.rating) == (True, schedule.EASY)
    assert (second.rating, second.gradings, second.hints, second.mistakes) == (schedule.GOOD, 2, 1, ("no shift",))
    said = "\n".join(review.summary(space.memory(LOSS), space, LOSS))
    assert "At the first pass: 1 grading. Now: 2 gradings, 1 hint, “no shift”." in said
    assert home.file(LOSS).read_text() == REFERENCE
    assert home.progress()[LOSS.name].score == LOSS.points
    assert home.standing(LOSS).passed
    space.correct(LOSS, schedule.EASY)
    assert space.memory(LOSS).reviews[-1].rating == schedule.EASY


def test_a_wrong_prediction_comes_back(home):
    """The last answer counts."""
    first, *_, last = predictions.of(LOSS)
    for question, right in ((first, False), (last, False), (last, True)):
        wrong = (
            "1" if question.choices and question.choices[0] != question.answer else "2" if question.choices else "1e9"
        )
        home.predict(LOSS, question, question.answer if right else wrong)
    space = ReviewSpace.of(home)
    space.add(LOSS)
    space.remember(LOSS, verdict="PASS", score=LOSS.points)
    said = "\n".join(review.summary(space.memory(LOSS), space, LOSS))
    assert " ".join(first.question.split()) in said
    assert " ".join(last.question.split()) not in said
    assert "Answer it again: `grade predict 07`." in said


def test_the_next_review_keeps_the_file_of_the_last(home):
    space = ReviewSpace.of(home, "whole")
    for text in ("one = 1\n", "two = 2\n"):
        space.add(LOSS)
        assert space.file(LOSS).read_text() == catalog.stub_text(LOSS)
        space.file(LOSS).write_text(text)
        space.remember(LOSS, given_up=True)
    space.add(LOSS)
    assert {path.read_text() for path in space.folder.glob("p07*.*.py")} == {"one = 1\n", "two = 2\n"}
    assert [each.rating for each in space.memory(LOSS).reviews[1:]] == [schedule.AGAIN] * 2


def test_a_review_that_was_left_continues_with_its_time(home):
    first = ReviewSpace.of(home)
    first.add(LOSS)
    first.file(LOSS).write_text("half = 1\n")
    first.clock(LOSS).counted = 100.0
    first.pause(LOSS)
    second = ReviewSpace.of(home)
    assert second.add(LOSS) is None
    assert second.file(LOSS).read_text() == "half = 1\n"
    assert second.clock(LOSS).seconds >= 100


def test_the_time_of_a_review_is_kept_and_said(home):
    space = ReviewSpace.of(home)
    for seconds in (125.0, 3725.0):
        space.add(LOSS)
        space.clock(LOSS).counted = seconds
        space.remember(LOSS, verdict="PASS", score=LOSS.points)
    assert [each.seconds for each in space.memory(LOSS).reviews] == [0, 125, 3725]
    said = review.summary(space.memory(LOSS), space, LOSS)
    assert said[0] == "Review done in 1:02:05."
    assert said[1].startswith("Before: 2:05 on ")


def test_the_clock_pauses():
    clock = Clock(5.0)
    assert (clock.runs, clock.seconds) == (False, 5.0)
    clock.start()
    assert clock.runs
    clock.pause()
    before = clock.seconds
    assert (clock.runs, clock.seconds) == (False, before)


def test_what_was_never_passed_is_refused(home):
    space = ReviewSpace.of(home)
    with pytest.raises(UsageError, match="You have not passed problem 03 yet"):
        space.add(HEADS)
    assert not space.file(HEADS).exists()
    with pytest.raises(UsageError, match="No review of problem 07 is under way"):
        space.end(LOSS)


def test_a_young_memory_is_reviewed_by_its_core(home):
    home.remember(HEADS, verdict="FAIL", score=1)
    home.remember(HEADS, verdict="PASS", score=HEADS.points)
    space = ReviewSpace.of(home)
    space.add(HEADS)
    text = space.file(HEADS).read_text()
    assert text == short_form.frames(HEADS)[0].stub
    assert "raise NotImplementedError" in text
    assert "self.q_proj = " in text
    assert "einsum" not in text
    with pytest.raises(UsageError, match="is under way: the core"):
        ReviewSpace.of(home, "whole").add(HEADS)


def test_every_problem_but_the_capstone_has_a_core():
    for problem in catalog.problems():
        reference = [frame for frame in short_form.frames(problem) if not frame.name]
        assert len(reference) == (problem.slug != "tinystories"), problem.name
        for frame in reference:
            assert frame.text == catalog.solution_text(problem)
            assert short_form.FEWEST <= frame.count <= short_form.MOST, problem.name


def test_each_review_has_another_frame(home):
    """In turn, also after a review that was left and resumed, and not counting reviews of the whole."""
    texts, names = [], [frame.name for frame in short_form.frames(LOSS)]
    assert len(names) == 3
    for number, form in enumerate(("core", "core", "whole", "core", "core")):
        space = ReviewSpace.of(home, form)
        space.add(LOSS)
        text = space.file(LOSS).read_text()
        if form == "core":
            texts.append(text)
            assert space.frame(LOSS).stub == text
            space.file(LOSS).unlink()
            assert ReviewSpace.of(home).add(LOSS) is None
            assert space.file(LOSS).read_text() == text, "the same review"
        space.remember(LOSS, given_up=True)
        assert len(space.memory(LOSS).reviews) == number + 2
    assert texts == [short_form.named(LOSS, name).stub for name in (*names, names[0])]
    assert "optax" not in texts[1], "another program, not another text of the reference"


def test_an_older_log_had_no_frames_and_loses_nothing(home):
    """A review of the core was one of the reference, so the next one has another frame."""
    begun = log.entry("reviewing", LOSS.name, form="core")
    home.note(begun, log.entry("reviewed", LOSS.name, review=begun.id, rating=3, form="core", review_duration=60_000))
    space = ReviewSpace.of(home, "core")
    assert [each.seconds for each in space.memory(LOSS).reviews] == [0, 60]
    space.add(LOSS)
    assert space.frame(LOSS).name == short_form.frames(LOSS)[1].name


def test_imports_are_read_from_the_workspace(home, tmp_path):
    from grader.judge import submission

    space = ReviewSpace.of(home)
    space.folder.mkdir()
    space.file(LOSS).write_text("from p03_causal_mha import CausalMHA\n")
    home.file(HEADS).write_text("passed = 1\n")
    read = submission.read(LOSS, space.file(LOSS), space.modules)
    assert read.sources[HEADS.name] == "passed = 1\n"


def test_what_is_due_is_said_on_its_day(home, monkeypatch):
    from grader.practice import reminders

    assert reminders.due_text(home) == ""
    due = ReviewSpace.of(home).memory(LOSS).due
    log.set_today(due)
    try:
        assert reminders.due_text(home) == "1 review due today: `grade review`."
        assert ReviewSpace.of(home).next_problem() == LOSS
    finally:
        log.set_today(None)
