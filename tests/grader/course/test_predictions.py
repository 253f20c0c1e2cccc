"""Predictions: the questions of a page that are answered before reading on."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli.learner import main
from grader.course import catalog, page, predictions
from grader.course.predictions import Prediction
from grader.course.workspace import Workspace
from grader.errors import CourseError
from grader.report.markdown_html import to_html

pytestmark = pytest.mark.fast
NUMBER = Prediction("How many?", (), "1,250 bytes", "So it is.", ">>> 1250\n1250")
CHOICE = Prediction("Which?", ("rows", "columns"), "columns", "So it is.", ">>> 'columns'\n'columns'")


@pytest.mark.parametrize(("text", "right"), [("1250", True), ("1,240 bytes", True), ("1.3e3", False), ("-1250", False)])
def test_a_number_may_be_rounded(text: str, right: bool):
    assert NUMBER.is_right(text) is right


@pytest.mark.parametrize(("text", "right"), [("2", True), ("columns", True), (" 1 ", False), ("rows", False)])
def test_a_choice_is_named_by_its_number_or_its_text(text: str, right: bool):
    assert CHOICE.is_right(text) is right


@pytest.mark.parametrize(
    ("prediction", "text", "says"),
    [
        (NUMBER, "many", "Answer with a number."),
        (NUMBER, "", "number"),
        (CHOICE, "3", "from 1 to 2"),
        (CHOICE, "0", "1"),
    ],
)
def test_what_is_no_answer_is_told_so(prediction: Prediction, text: str, says: str):
    with pytest.raises(ValueError, match=re.escape(says)):
        prediction.is_right(text)


def test_an_answer_is_proved_by_the_last_line_of_its_example():
    assert NUMBER.is_proved()
    assert CHOICE.is_proved()
    assert not Prediction("How many?", (), "3", "", ">>> 4\n4").is_proved()
    assert not Prediction("Which?", ("a", "b"), "a", "", ">>> 'b'\n'b'").is_proved()


@pytest.mark.parametrize(
    "block",
    [
        "How many?\n\n= 3\n\n>>> 3\n3\n",  # says not why
        "How many?\n\n= 3\n\nSo it is.\n",  # without an example
        "Which?\n\n- a\n- b\n\nSo it is.\n\n>>> 'a'\n'a'\n",  # none is right
        "Which?\n\n- [x] a\n- [x] b\n\nSo it is.\n\n>>> 'a'\n'a'\n",
        "Which?\n\n- [x] a\n\nSo it is.\n\n>>> 'a'\n'a'\n",  # nothing to choose
        "",
    ],
)
def test_a_malformed_one_is_named(block: str):
    with pytest.raises(CourseError, match=r"page.md: the prediction"):
        predictions.folded(catalog.find("06"), f"```predict\n{block}```")


def test_a_page_folds_the_answers_and_a_terminal_shows_none():
    problem = catalog.find("06")
    asked = predictions.of(problem)
    text = page.without_hints(problem)
    assert ">>> def count" not in text, "the example that proves the answer is not shown"
    assert to_html(text).count("<summary>The answer</summary>") == len(asked)
    shown = page.as_text(text)
    for prediction in asked:
        assert " ".join(prediction.question.split()) in " ".join(shown.split())
        assert prediction.why.split("\n")[0] not in shown
    assert shown.count("`grade predict 06` takes your answer.") == len(asked)


def test_of_many_pitfalls_three_stand_in_front():
    problem = catalog.find("06")
    text = page.without_hints(problem)
    front, more = page.as_text(text), page.as_text(text, all_pitfalls=True)
    count = len(re.findall(r"^- ", page.sections(problem)["Pitfalls"], re.MULTILINE))

    def listed(markdown: str) -> int:
        section = markdown.split("## Pitfalls")[1].split("\n## ")[0]
        return len(re.findall(r"^- ", section, re.MULTILINE))

    assert listed(front) == page.FIRST_PITFALLS < count == listed(more)
    assert f"{count - 3} more pitfalls, for after your first attempt: `grade show 06 --pitfalls`." in front


def test_a_wrong_answer_is_asked_again_and_a_right_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def answered(*words: str, typed: str = "") -> str:
        run = CliRunner().invoke(main, words, input=typed)
        assert run.exit_code == 0, run.output
        return " ".join(run.output.split())

    problem = catalog.find("06")
    first, second = predictions.of(problem)
    answered("start")
    said = answered("predict", "06", typed="5000\nnone\n2\n")
    assert f"No: {first.answer}." in said
    assert "Answer with a number" in said
    assert "Right." in said
    assert said.endswith("grade it with `grade problem 06`.")
    assert Workspace(tmp_path / "attempts").predicted(problem) == {first.id: False, second.id: True}
    asked = answered("predict", "06", typed=f"{first.answer}\n")
    assert second.question.split("\n")[0] not in asked
    assert "You have answered all of page 06." in answered("predict", "06")
    assert second.question.split("\n")[0] in answered("predict", "06", "--again", typed=f"{first.answer}\n2\n")
