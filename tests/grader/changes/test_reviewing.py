"""A learner's review: what counts is in the log, verdicts are final, and the score is the mean of three changes."""

from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.changes import reviewing, testing
from grader.changes.drawing import Proofs
from grader.changes.reviewing import FAULTY, SOUND, ReviewSpace, UnderWay
from grader.changes.testing import Judged
from grader.course import catalog, log, tasks
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
    if reviewing.drawing.draw([catalog.find(n) for n in PASSED], (), seed, lambda hunt: True).faults
)  # fmt: skip


@pytest.fixture
def space(tmp_path: Path) -> ReviewSpace:
    home = Workspace(tmp_path)
    for number in PASSED:
        problem = catalog.find(number)
        home.file(problem).write_text(catalog.solution_text(problem))
        home.remember(problem, verdict="PASS", score=problem.points)
    return ReviewSpace(home, MODEL)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the tests that were judged: one counts if it says so."""
    texts: list[str] = []

    def judge(problem, test, fault, sisters, workers, say):
        texts.extend(test.sources.values())
        return Judged("good" in texts[-1], "told")

    monkeypatch.setattr(testing, "judge", judge)
    return texts


def fill(space: ReviewSpace, current: UnderWay, verdicts: dict[int, str]) -> None:
    rows = "".join(f'[[hunk]]\nnumber = {number}\nverdict = "{verdict}"\n' for number, verdict in verdicts.items())
    (space.folder(current) / "review.toml").write_text(rows)


def run(space: ReviewSpace) -> UnderWay:
    """Hands in what is new, and returns the change as the log has it."""
    current = space.under_way()
    space.run(current, space.new(current), None)
    return space.all()[-1]


def right(current: UnderWay) -> dict[int, str]:
    change = current.plan.change()
    return {hunk.number: FAULTY if hunk.number in change.faults else SOUND for _, hunk in change.hunks}


def test_a_change_needs_a_passed_problem(tmp_path: Path):
    with pytest.raises(UsageError, match="you have passed none of 02, 03, 04, 05, 06"):
        ReviewSpace(Workspace(tmp_path), MODEL).begin(SEED, TRUSTING)


def test_what_is_missing_in_the_folder_is_written_again(space: ReviewSpace):
    current = space.begin(SEED, TRUSTING)
    folder = space.folder(current)
    diff = (folder / "change.diff").read_text()
    assert diff.count("@@ hunk") == len(current.plan.change().hunks)
    assert "fault" not in (folder / "description.md").read_text()
    (folder / "change.diff").unlink()
    (folder / "review.toml").write_text("# mine\n")
    space.write(space.under_way())
    assert (folder / "change.diff").read_text() == diff
    assert (folder / "review.toml").read_text() == "# mine\n"


def test_a_good_review_costs_one_run(space: ReviewSpace, judged: list[str]):
    current = space.begin(SEED, TRUSTING)
    fill(space, current, right(current))
    for number in current.plan.change().faults:
        (space.folder(current) / f"test_{number}.py").write_text("good")
    ended = run(space)
    assert (ended.ended, ended.points, ended.overlooked) == (True, 1, ())
    assert MODEL.standard(ended.points) == "gold"
    assert space.under_way() is None


def test_a_verdict_counts_as_it_was_first_handed_in(space: ReviewSpace, judged: list[str]):
    current = space.begin(SEED, TRUSTING)
    sound = next(number for number, verdict in right(current).items() if verdict == SOUND)
    fill(space, current, {sound: FAULTY})
    run(space)
    fill(space, current, right(current))
    change = current.plan.change()
    again = run(space)
    assert again.verdicts[sound] == FAULTY
    assert reviewing.is_wrong(again, change, sound)
    assert reviewing.points(again, change) == 10 + 5 * len(change.faults) + 2


def test_a_test_may_be_mended_and_runs_once(space: ReviewSpace, judged: list[str]):
    current = space.begin(SEED, TRUSTING)
    fill(space, current, right(current))
    tests = [space.folder(current) / f"test_{number}.py" for number in current.plan.change().faults]
    for path in tests:
        path.write_text("bad")
    assert not run(space).ended
    assert space.new(space.under_way()).tests == {}
    for path in tests:
        path.write_text("good")
    ended = run(space)
    assert (ended.ended, ended.points) == (True, 2)
    assert len(judged) == 2 * len(tests)


def test_a_run_that_is_killed_is_counted_and_loses_no_verdict(space: ReviewSpace, monkeypatch: pytest.MonkeyPatch):
    current = space.begin(SEED, TRUSTING)
    fill(space, current, right(current))
    for number in current.plan.change().faults:
        (space.folder(current) / f"test_{number}.py").write_text("good")

    def killed(*more):
        raise KeyboardInterrupt

    monkeypatch.setattr(testing, "judge", killed)
    with pytest.raises(KeyboardInterrupt):
        run(space)
    left = space.under_way()
    assert (left.runs, left.verdicts) == (1, right(current))
    monkeypatch.setattr(testing, "judge", lambda *more: Judged(True, ""))
    assert (run(space).points, space.under_way()) == (2, None)


def test_giving_up_overlooks_what_was_not_found_and_brings_it_back(space: ReviewSpace):
    current = space.begin(SEED, TRUSTING)
    change = current.plan.change()
    space.end(current)
    ended = space.all()[-1]
    assert ended.points == 10 * len(change.faults) + 1
    assert set(ended.overlooked) == {fault.misconception.name for fault in change.faults.values()}
    after = space.begin("other", TRUSTING).plan.change()
    assert {fault.misconception.name for fault in after.faults.values()} & set(ended.overlooked)
    assert space.folder(space.under_way()) != space.folder(ended)


def test_the_score_is_the_mean_of_the_last_three(space: ReviewSpace):
    for number, points in enumerate((30, 1, 2, 6)):
        entry = log.entry(reviewing.KIND, MODEL.label, seed=SEED, files=["p02_causal_attention reference reference"])
        space.home.note(entry)
        space.home.record(reviewing.ENDED, MODEL.label, begun=entry.id, points=points, counts=1)
        assert len(space.all()) == number + 1
    assert [each.points for each in space.all()] == [30, 1, 2, 6]
    space.begin(SEED, TRUSTING)
    space.end(space.under_way())
    last = space.all()[-1].points
    assert tasks.best(MODEL, space.home.entries()).scores == (round((2 + 6 + last) / 3),)


def test_calling_everything_sound_does_not_pay(space: ReviewSpace, judged: list[str]):
    faultless = log.entry(
        reviewing.KIND, MODEL.label, seed="1", files=["p02_causal_attention reference p02_logsumexp.py"]
    )
    space.home.note(faultless)
    current = space.under_way()
    space.write(current)
    fill(space, current, right(current))
    assert (run(space).points, space.all()[-1].counts) == (1, False)
    current = space.begin(SEED, TRUSTING)
    fill(space, current, dict.fromkeys(right(current), SOUND))
    ended = run(space)
    assert ended.counts
    assert not MODEL.standard(ended.points)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[[hunk]\n", "is not TOML"), ("hunk = 3\n", "must have a table"), ("[[hunk]]\nnumber = 99\n", "has a hunk 99"),
     ("[[hunk]]\nnumber = 1\n[[hunk]]\nnumber = 1\n", "each once"),
     ('[[hunk]]\nnumber = 1\nverdict = "fine"\n', 'write "sound" or "faulty"')],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_told_why(tmp_path: Path, text: str, said: str):
    (tmp_path / "review.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        reviewing.read_form(tmp_path / "review.toml", [1, 2, 3])
