"""Stop strings: a text ends where one of them begins."""

from collections.abc import Iterable, Iterator, Sequence


def until(parts: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The parts of a text, up to the first of the stop strings, which is left out.

    What may be the beginning of one is held back until more of the text is known.
    """
    held = ""
    for part in parts:
        held += part
        if found := [place for stop in stops if (place := held.find(stop)) >= 0]:
            yield held[: min(found)]
            return
        kept = max((_overlap(held, stop) for stop in stops), default=0)
        if ready := held[: len(held) - kept]:
            yield ready
        held = held[len(ready) :]
    if held:
        yield held


def _overlap(text: str, stop: str) -> int:
    """The most characters with which the text ends and the stop string begins."""
    return next(size for size in range(min(len(text), len(stop)), -1, -1) if text.endswith(stop[:size]))
