"""A learner's review: what counts is in the log, verdicts are final, and the score is the mean of three changes."""

from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.changes import drawing, reviewing, testing
from grader.changes.drawing import Plan, Proofs
from grader.changes.reviewing import FAULTY, SOUND, ChangeReview, begin
from grader.changes.testing import Judged
from grader.course import attempts, catalog, tasks
from grader.course.workspace import Workspace

MODEL = tasks.find("review_model")
PASSED = ("02", "03", "04")


class Trusting(Proofs):
    """Takes each hunt for a fault, and each file for right."""

    def is_fault(self, hunt):
        return True

    def is_right(self, file):
        return True


TRUSTING = Trusting(workers=None)  # it starts no process
SEED = next(  # of a change with a fault
    seed for seed in map(str, range(20))
    if drawing.draw([catalog.find(n) for n in PASSED], (), seed, lambda hunt: True).faults
)  # fmt: skip


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    home = Workspace(tmp_path)
    for number in PASSED:
        problem = catalog.find(number)
        home.file(problem).write_text(catalog.solution_text(problem))
        home.remember(problem, verdict="PASS", score=problem.points)
    return home


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the tests that were judged: one counts if it says so."""
    texts: list[str] = []

    def judge(problem, test, fault, sisters, workers, say):
        texts.extend(test.sources.values())
        return Judged("good" in texts[-1], "told")

    monkeypatch.setattr(testing, "judge", judge)
    return texts


def fill(review: ChangeReview, verdicts: dict[int, str]) -> None:
    rows = "".join(f'{number} = "{verdict}"\n' for number, verdict in verdicts.items())
    (review.folder / "review.toml").write_text(rows)


def run(space: Workspace) -> ChangeReview:
    """Hands in what is new, and returns the change as the log has it."""
    reviewing.hand_in(ChangeReview.under_way(space, MODEL), give_up=False)
    return ChangeReview.all(space, MODEL)[-1]


def right(review: ChangeReview) -> dict[int, str]:
    return {number: FAULTY if number in review.change.faults else SOUND for number in review.numbers}


def test_a_change_needs_a_passed_problem(tmp_path: Path):
    with pytest.raises(UsageError, match="you have passed none of 02, 03, 04, 05, 06"):
        begin(Workspace(tmp_path), MODEL, SEED, TRUSTING)


def test_what_is_missing_in_the_folder_is_written_again(space: Workspace):
    review = begin(space, MODEL, SEED, TRUSTING)
    folder = review.folder
    diff = (folder / "change.diff").read_text()
    assert diff.count("@@ hunk") == len(review.numbers)
    assert "fault" not in (folder / "description.md").read_text()
    (folder / "change.diff").unlink()
    (folder / "review.toml").write_text("# mine\n")
    ChangeReview.under_way(space, MODEL).write()
    assert (folder / "change.diff").read_text() == diff
    assert (folder / "review.toml").read_text() == "# mine\n"


def test_a_good_review_costs_one_run(space: Workspace, judged: list[str]):
    review = begin(space, MODEL, SEED, TRUSTING)
    fill(review, right(review))
    for number in review.change.faults:
        (review.folder / f"test_{number}.py").write_text("good")
    ended = run(space)
    assert (ended.points, ended.ended.names("missed")) == (1, ())
    assert MODEL.standard(ended.points) == "gold"
    assert ChangeReview.under_way(space, MODEL) is None


def test_a_verdict_counts_as_it_was_first_handed_in(space: Workspace, judged: list[str]):
    review = begin(space, MODEL, SEED, TRUSTING)
    sound = next(number for number, verdict in right(review).items() if verdict == SOUND)
    fill(review, {sound: FAULTY})
    run(space)
    fill(review, right(review))
    again = run(space)
    assert again.verdicts[sound] == FAULTY
    assert again.is_wrong(sound)
    assert again.points == 10 + 5 * len(review.change.faults) + 2


def test_a_test_may_be_mended_and_runs_once(space: Workspace, judged: list[str]):
    review = begin(space, MODEL, SEED, TRUSTING)
    fill(review, right(review))
    written = [review.folder / f"test_{number}.py" for number in review.change.faults]
    for path in written:
        path.write_text("bad")
    assert not run(space).ended
    assert ChangeReview.under_way(space, MODEL).new().tests == {}
    for path in written:
        path.write_text("good")
    ended = run(space)
    assert (bool(ended.ended), ended.points) == (True, 2)
    assert len(judged) == 2 * len(written)


def test_giving_up_misses_what_was_not_found_and_brings_it_back(space: Workspace):
    review = begin(space, MODEL, SEED, TRUSTING)
    faults = {fault.misconception.name for fault in review.change.faults.values()}
    ended, _ = reviewing.hand_in(review, give_up=True)
    assert ended.points == 10 * len(faults) + 1
    assert set(ended.ended.names("missed")) == faults
    after = begin(space, MODEL, "other", TRUSTING)
    assert {fault.misconception.name for fault in after.change.faults.values()} & faults
    assert after.folder != ended.folder


def test_the_score_is_the_mean_of_the_last_three(space: Workspace):
    plan = Plan(SEED, (("p02_causal_attention", "reference", "reference"),)).dumps()
    for points in (30, 1, 2, 6):
        ChangeReview.begin(space, MODEL, plan=plan).note(attempts.ENDED, points=points, counts=1)
    assert [each.points for each in ChangeReview.all(space, MODEL)] == [30, 1, 2, 6]
    last, _ = reviewing.hand_in(begin(space, MODEL, SEED, TRUSTING), give_up=True)
    assert tasks.best(MODEL, space.entries()).scores == (round((2 + 6 + last.points) / 3),)


def test_calling_everything_sound_does_not_pay(space: Workspace, judged: list[str]):
    plan = Plan("1", (("p02_causal_attention", "reference", "p02_logsumexp.py"),))
    review = ChangeReview.begin(space, MODEL, plan=plan.dumps())
    review.write()
    fill(review, right(review))
    ended = run(space)
    assert (ended.points, ended.counts) == (1, False)
    review = begin(space, MODEL, SEED, TRUSTING)
    fill(review, dict.fromkeys(right(review), SOUND))
    ended = run(space)
    assert ended.counts
    assert not MODEL.standard(ended.points)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[1\n", "is not TOML"), ('4 = "sound"\n', "the file has no '4'; it has 1, 2, 3"), ("1 = 1\n", "it is 1"),
     ('1 = "fine"\n', '`1` is "sound" or "faulty"; it is \'fine\'')],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_told_why(tmp_path: Path, text: str, said: str):
    (tmp_path / "review.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        reviewing.read_form(tmp_path / "review.toml", MODEL, [1, 2, 3])
