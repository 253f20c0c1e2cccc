"""The letters of shapes mean what the table in docs/index.md says, part by part."""

import re

import pytest

from grader.course import catalog
from grader.problem import Problem
from tests.conftest import ROOT

pytestmark = pytest.mark.fast

_AXES = re.compile(r'\[\s*(?:Array|np\.ndarray),\s*"([^"]*)"')
_AXIS = r"(?:[A-Z](?:[/+·*-][A-Z0-9])?|\d+)"
_SHAPE = re.compile(rf"(?<![\w\])])\(({_AXIS},|(?:{_AXIS}, )+{_AXIS})\)")
_ROW = re.compile(r"^\| ((?:[A-Za-z], )*[A-Za-z]) \| (.*?) ?\| (.*?) ?\|$", re.MULTILINE)


def table() -> dict[str, tuple[str, dict[str, str]]]:
    """What each letter means on most pages, and on the pages where it means something else."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    return {
        letter: (usual, dict(re.findall(r"(\d\d): ([^;]+)", elsewhere)))
        for letters, usual, elsewhere in _ROW.findall(text)
        for letter in letters.split(", ")
    }


TABLE = table()


def letters(problem: Problem) -> set[str]:
    """The letters that count axes, in the annotations of a stub and in the shapes on its page."""
    axes = " ".join([*_AXES.findall(catalog.stub_text(problem)), *_SHAPE.findall(prose(problem))])
    return {*re.findall(r"\b[A-Za-z]\b", axes)}


def prose(problem: Problem) -> str:
    """The page without its code, but with its drawing."""
    return re.sub(r"^```(?:python|predict)\n.*?^```", "", catalog.page_text(problem), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", catalog.names())
def test_the_table_has_every_letter_of_a_shape(name: str):
    problem = catalog.load(name)
    for letter in letters(problem):
        usual, elsewhere = TABLE[letter]
        assert usual or problem.label in elsewhere, f"{letter} of {name}"


@pytest.mark.parametrize(
    ("letter", "label", "meaning"),
    [(letter, label, meaning) for letter, (_, elsewhere) in TABLE.items() for label, meaning in elsewhere.items()],
)
def test_a_page_with_a_meaning_of_its_own_uses_the_letter_and_says_the_word(letter: str, label: str, meaning: str):
    problem = catalog.find(label)
    text = prose(problem)
    assert letter in letters(problem) or re.search(rf"(?<![A-Za-z]){letter}(?![A-Za-z])", text)
    words = [word[:-1] if word.endswith("s") else word for word in re.findall(r"[a-z]{4,}", meaning)]
    assert any(word in text.lower() for word in words), words


def test_most_letters_have_one_meaning_in_a_part():
    """These have two: the letters of a paper, or of a data structure beside a model."""
    meanings: dict[tuple[str, str], set[str]] = {}
    for problem in catalog.problems():
        for letter in letters(problem):
            usual, elsewhere = TABLE[letter]
            part = catalog.part_of(problem).split(".")[0]
            meanings.setdefault((part, letter), set()).add(elsewhere.get(problem.label, usual))
    several = {place for place, found in meanings.items() if len(found) > 1}
    known = {"VIII": "MR", "IX": "BCMN", "X": "BNP", "XI": "KMN", "XII": "F", "XIII": "S"}
    assert several == {(part, letter) for part, letters in known.items() for letter in letters}
