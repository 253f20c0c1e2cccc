"""The embedded stories: distinct and consistent."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.pocket import BOYS, CHILDREN, GIRLS, stories, story

NAMES = set(GIRLS) | set(BOYS)
HE, SHE = {"he", "him", "his"}, {"she", "her"}


@pytest.mark.thorough
def test_fifty_thousand_stories_are_distinct() -> None:
    assert len(set(stories(50_000))) == 50_000


@given(index=st.integers(0, 10**9), seed=st.integers(0, 10**6))
def test_a_story_keeps_its_names_and_pronouns(index: int, seed: int) -> None:
    text = story(index, seed)
    words = re.findall(r"[A-Za-z]+", text)
    names_used = [word for word in words if word in NAMES]
    assert 1 <= len(set(names_used)) <= 2
    assert len({kind for kind, names in CHILDREN.items() if set(names_used) & set(names)}) == len(set(names_used)), (
        "one of each gender"
    )
    if len(set(names_used)) == 1:  # then every pronoun refers to the hero
        pronouns = {word.lower() for word in words} & (HE | SHE)
        assert pronouns <= (HE if names_used[0] in BOYS else SHE)
    assert "{" not in text
    assert text == text.strip()
    assert not re.search(r"\ba [aeiou]", text), "`an` before a vowel"


def test_a_story_depends_only_on_its_index_and_the_seed() -> None:
    assert list(stories(3, seed=1, start=5)) == [story(5, 1), story(6, 1), story(7, 1)]
    assert story(5, 1) != story(5, 2)
