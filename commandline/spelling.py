"""Suggestions for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Up to `count` names in `known` that resemble `word`, the most similar first. Ignores case."""
    by_lower = {name.lower(): name for name in known}
    return [by_lower[match] for match in get_close_matches(word.lower(), by_lower, n=count, cutoff=0.6)]
