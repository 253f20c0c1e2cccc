"""The level of isolation follows from the measured layers and attacks."""

import json

import pytest

from grader.isolation.level import NOTHING_RUN, STRONG_LAYERS, Isolation, Level

pytestmark = pytest.mark.fast

LAYERS = ("own process", *STRONG_LAYERS, "limits")


def without(*missing: str) -> Isolation:
    return Isolation.measured([layer for layer in LAYERS if layer not in missing], [])


@pytest.mark.parametrize(
    ("isolation", "level", "text"),
    [
        (without(), Level.STRICT, "strict: own process, namespaces, landlock, seccomp, limits"),
        (without("limits"), Level.STRICT, "strict: own process, namespaces, landlock, seccomp"),
        (without("seccomp"), Level.PARTIAL, "partial: own process, namespaces, landlock, limits; missing: seccomp"),
        (
            Isolation.measured(LAYERS, ["opens a network socket"]),
            Level.PARTIAL,
            "partial: own process, namespaces, landlock, seccomp, limits; not stopped: opens a network socket",
        ),
        (
            without(*STRONG_LAYERS),
            Level.WEAK,
            "weak: own process, limits; missing: namespaces, landlock, seccomp",
        ),
        (NOTHING_RUN, Level.NONE, "none: no code was run"),
    ],
)
def test_the_level_and_the_line_of_a_report(isolation: Isolation, level: Level, text: str):
    assert (isolation.level, str(isolation)) == (level, text)
    assert Isolation.decode(json.loads(json.dumps(isolation.encode()))) == isolation


def test_levels_are_ordered():
    assert list(Level) == [Level.NONE, Level.WEAK, Level.PARTIAL, Level.STRICT]
    assert Level.STRICT.reaches(Level.PARTIAL)
    assert Level.PARTIAL.reaches(Level.PARTIAL)
    assert not Level.WEAK.reaches(Level.PARTIAL)


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="total"):
        Isolation.decode({**without().encode(), "level": "total"})


@pytest.mark.parametrize(
    ("isolation", "sealed"),
    [
        (without(), True),
        (without("namespaces"), True),
        (Isolation.measured(LAYERS, ["opens a network socket"]), True),
        (Isolation.measured(LAYERS, ["reads the course"]), False),
        (Isolation.measured(LAYERS, ["writes outside"]), False),
        (without(*STRONG_LAYERS), False),
        (NOTHING_RUN, False),
    ],
)
def test_whether_a_submission_can_reach_files(isolation: Isolation, sealed: bool):
    assert isolation.sealed is sealed
