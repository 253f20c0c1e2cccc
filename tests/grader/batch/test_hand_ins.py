"""What learners hand in to a hub: each attempt counts with the time of the service, and only for its problem."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import deadlines, hand_ins, intake
from grader.batch.deadlines import Policy
from grader.batch.faults import Faults
from grader.batch.hand_ins import HandIn

pytestmark = pytest.mark.fast

P1, P3 = "p01_token_embedding", "p03_causal_mha"
NINE = datetime(2026, 11, 2, 9, 0, 0, 250, tzinfo=UTC)


def put(top: Path, learner: str, problem: str, minutes: int, **files: str) -> HandIn:
    hand_in = HandIn(learner, problem, NINE + timedelta(minutes=minutes), f"{minutes:032x}")
    (top / hand_in.folder).mkdir(parents=True)
    for module, text in files.items():
        (top / hand_in.folder / f"{module}.py").write_text(text)
    (top / hand_ins.MARK).touch()
    return hand_in


def read(top: Path) -> intake.Intake:
    return intake.read(top, None, Faults(top.parent / "log"))


@pytest.mark.parametrize("name", ["ada", ".hidden", "../etc", "ada@example.org", "grüße/ada", "ada,b"])
def test_the_folder_of_an_attempt_says_all_of_it(name: str):
    hand_in = HandIn(name, P1, NINE, f"{7:032x}")
    assert hand_ins.parse(hand_in.folder) == hand_in
    assert len(hand_in.folder.parts) == 3
    assert not [part for part in hand_in.folder.parts if part.startswith(".")]


def test_each_attempt_is_an_item_with_its_time(tmp_path: Path):
    top = tmp_path / "hand-ins"
    first = put(top, "ada", P1, 0, p01_token_embedding="first = 1")
    second = put(top, "ada", P1, 5, p01_token_embedding="second = 1")
    put(top, "bob", P1, 7, p01_token_embedding="third = 1")
    found = read(top)
    assert (found.layout, found.learners, found.notes, found.unused) == ("hub", ["ada", "bob"], [], [])
    own = [(item.submitted, item.submission and item.submission.sources) for item in found.items[:2]]
    assert own == [(first.received, {P1: "first = 1"}), (second.received, {P1: "second = 1"})]


def test_an_imported_file_is_no_attempt_at_its_problem(tmp_path: Path):
    top = tmp_path / "hand-ins"
    put(top, "ada", P3, 0, p03_causal_mha="import p01_token_embedding", p01_token_embedding="x = 1")
    found = read(top)
    assert [problem.name for problem in found.problems] == [P3]
    (item,) = found.items
    assert item.submission is not None
    assert set(item.submission.sources) == {P1, P3}
    assert found.unused == []


def test_folders_that_a_learner_made_have_no_times(tmp_path: Path):
    """Without the mark of the service, a name that looks like a time is a name."""
    top = tmp_path / "class"
    hand_in = put(top, "ada", P1, 0, p01_token_embedding="x = 1")
    (top / hand_ins.MARK).unlink()
    (top / "ada" / hand_ins.MARK).touch()
    (item,) = read(top).items
    assert (item.file, item.submitted) == (str(hand_in.folder.relative_to("ada") / f"{P1}.py"), None)


def test_a_policy(tmp_path: Path):
    file = tmp_path / "deadlines.yml"
    file.write_text("due: 2026-11-02\nhand_in: {attempts_a_day: 3, before_due: nothing, after_due: idea, counts: last}")
    assert deadlines.read(file).policy == Policy(3, None, "idea", best=False, holds_marks=True)
    file.write_text("due: 2026-11-02")
    assert deadlines.read(file).policy == Policy()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hand_in: 3", "hand_in: write settings below it, such as `attempts_a_day: 5`."),
        ("hand_in: {tries: 3}", "hand_in: `tries` is not a setting"),
        ("hand_in: {attempts_a_day: few}", "hand_in: attempts_a_day: few is not a whole number, such as 3."),
        ("hand_in: {before_due: all}", "hand_in: before_due: all is not a level; the levels are nothing, verdict,"),
        ("hand_in: {send_marks: never}", "hand_in: send_marks: never is not after_grading or on_request."),
        (
            "hand_in: {before_due: nothing, send_marks: after_grading}",
            "hand_in: send_marks: after_grading shows marks that before_due: nothing hides.",
        ),
        ("hand_in: {after_due: verdict}", "hand_in: after_due: verdict reveals less than before_due: advice."),
        ("hand_in: {counts: first}", "hand_in: counts: first is not best or last."),
    ],
)
def test_a_policy_that_is_not_valid(line: str, says: str, tmp_path: Path):
    file = tmp_path / "deadlines.yml"
    file.write_text(f"due: 2026-11-02\n{line}\n")
    with pytest.raises(UsageError, match=r"deadlines.yml: hand_in") as caught:
        deadlines.read(file)
    assert says in str(caught.value)
