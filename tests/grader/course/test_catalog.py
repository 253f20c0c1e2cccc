"""Problems are found by whatever a person would type."""

import pytest

from commandline.errors import UsageError
from grader.course import catalog
from grader.errors import CourseError


@pytest.mark.parametrize(
    "word",
    ["7", "07", "p07", "next_token_loss", "p07_next_token_loss", "p07_next_token_loss.py", "a/p07_next_token_loss.py"],
)
def test_found(word):
    assert catalog.find(word).name == "p07_next_token_loss"


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("next_tokn_loss", "07 next_token_loss"),
        ("attention", "02 causal_attention"),
        ("0", "01"),
        ("p77", catalog.names()[-1][1:3]),
        ("zzz", "list"),
    ],
)
def test_not_found_names_the_nearest(word, suggestion):
    with pytest.raises(UsageError, match=suggestion):
        catalog.find(word)


def test_sources_are_followed_through_imports():
    sources = catalog.reference_sources(catalog.find("06"))
    assert list(sources) == ["p06_mini_gpt", "p05_gpt_block", "p03_causal_mha"]


def test_an_edit_must_fit_once(monkeypatch, tmp_path):
    problem = catalog.find("07")
    monkeypatch.setattr(course, "SOLUTIONS", tmp_path)
    (tmp_path / "p07_next_token_loss.py").write_text("a = 1\na = 1\n")
    (tmp_path / "p07_next_token_loss.toml").write_text(
        '[[misconception]]\nname = "n"\nsays = "s"\nfind = "a = 1"\nreplace = "a = 2"\n'
    )
    with pytest.raises(CourseError, match="must occur once"):
        catalog.misconceptions(problem)


def test_every_number_is_used_once():
    numbers = [problem.number for problem in catalog.problems()]
    assert len(set(numbers)) == len(numbers)
