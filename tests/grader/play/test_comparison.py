"""A play of a file that is not known to pass says how it differs from that of a right file, or that it does not."""

import dataclasses

import pytest

from grader.course import catalog
from grader.exhibits import Bar, Bars, HeatMap, Line, Lines, Plane, Story, Table, Token
from grader.judge import submission as submission_
from grader.judge.judge import grade
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.play.comparison import compared, seen
from grader.play.play_session import Performance
from studio.grading import encode
from tests.grader.report.reports import report_of

STORY = Story("Told", (Token("One"), Token(" day", 2.0), Token(" Mia", 4.0)))
MAP = HeatMap("Map", ("a", "b"), ("c",), (Plane([[0.5], [1.0]], "head 1"),))
CURVES = Lines("Curves", (Line("yours", [1, 2], [4.0, 2.0]),))
BARS = Bars("Sizes", (Bar("after block 1", 2.0, 1.0),), "numbers")
TABLE = Table("Words", ("word", "nearest"), (("mom", "aunt"),))
ALL = [STORY, MAP, CURVES, BARS, TABLE]


def test_a_play_that_shows_nothing_of_a_mistake_says_so():
    close = dataclasses.replace(BARS, bars=(Bar("after block 1", 2.0, 1.0004),))
    said = compared([*ALL[:3], close, TABLE], ALL)
    assert "shows the same numbers" in said
    assert "its mistake does not show here" in said


def test_a_hunt_begins_with_what_a_picture_shows():
    close = dataclasses.replace(BARS, bars=(Bar("after block 1", 2.0, 1.01),))
    assert seen([*ALL[:3], close, TABLE], ALL) == "", "1% is not seen"
    far = dataclasses.replace(BARS, bars=(Bar("after block 1", 6.2, 1.0),))
    assert seen([*ALL[:3], far, TABLE], ALL) == "“Sizes”: after block 1, yours: 6.2 where a right file has 2"
    assert seen(ALL[:2], ALL) == ""


OTHER = Story("Told", (Token("One"), Token(" cat", 2.0)))
SHORTER = Story("Told", STORY.tokens[:2])
FAINTER = dataclasses.replace(MAP, planes=(Plane([[0.5], [0.25]], "head 1"),))
BROKEN = dataclasses.replace(CURVES, lines=(Line("yours", [1, 2], [4.0, float("nan")]),))
LOWER = dataclasses.replace(BARS, bars=(Bar("after block 1", 2.0, 0.5),))
WRONG = dataclasses.replace(TABLE, rows=(("mom", "dad"),))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (OTHER, "the first other token is “cat” where a right file has “day”"),
        (SHORTER, "the first other token is “nothing” where a right file has “Mia”"),
        (FAINTER, "head 1, b, c: 0.25 where a right file has 1"),
        (BROKEN, "yours, step 2: nan where a right file has 2"),
        (LOWER, "after block 1, right: 0.5 where a right file has 1"),
        (WRONG, "mom, nearest: “dad” where a right file has “aunt”"),
    ],
)
def test_the_largest_difference_is_named(changed, said):
    text = compared([changed if each.title == changed.title else each for each in ALL], ALL)
    assert "differs from yours in 1 of 5 exhibits. " in text
    assert f"“{changed.title}”: {said}" in text


def test_a_small_difference_hardly_shows():
    text = compared([dataclasses.replace(BARS, bars=(Bar("after block 1", 2.0, 0.99),))], [BARS])
    assert "differs from yours in its exhibit, but by 1.0% at most: at this size, the mistake hardly shows." in text


def test_times_are_not_compared():
    timed = dataclasses.replace(BARS, timed=True)
    assert "the same numbers" in compared([dataclasses.replace(timed, bars=(Bar("a", 9.0),)), MAP], [timed, MAP])


def test_exhibits_of_other_kinds_are_counted():
    assert compared([MAP], [MAP, TABLE]) == "The play of a right file has other exhibits: 2, where yours has 1."


@pytest.mark.parametrize("passes", [True, False])
def test_a_play_is_compared_unless_the_file_is_known_to_pass(fork_server, tmp_path, monkeypatch, passes):
    """Wherever the file is, and whether it was graded or not."""
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    problem = catalog.find("01")
    sources = dict(submission_.reference(problem).sources)
    if passes:
        assert grade(problem, Submission(f"{problem.name}.py", sources), fork_server).verdict is Verdict.PASS
    else:
        sources[problem.name] = sources[problem.name].replace(" + self.pos_embed[:T]", "")
    performance = Performance(problem, Submission(f"{problem.name}.py", sources), fork_server)
    assert len(list(performance)) == 2
    assert performance.failure is None
    said = performance.ending().compared
    assert said == "" if passes else said.startswith("The play of a right file differs from yours in 1 of 2")


@pytest.mark.fast
def test_the_studio_is_told_of_no_play_that_cannot_run():
    assert encode(report_of(Verdict.FAIL))["can_play"]
    for verdict in (Verdict.ERROR, Verdict.TIMEOUT, Verdict.MEMORY):
        assert not encode(report_of(verdict))["can_play"]
