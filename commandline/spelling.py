"""Suggestions for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

# Names may come from a submission, and a comparison takes up to a millisecond.
_MOST_NAMES, _LONGEST_NAME = 256, 100


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Returns up to `count` names in `known` that resemble `word`, the most similar first.

    Ignores case. Considers a limited number of names, and none that is very long.
    """
    if len(word) > _LONGEST_NAME:
        return []
    by_lower = {name.lower(): name for name in islice(known, _MOST_NAMES) if len(name) <= _LONGEST_NAME}
    return [by_lower[match] for match in get_close_matches(word.lower(), by_lower, n=count, cutoff=0.6)]
