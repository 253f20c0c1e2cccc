"""The schema of `course.toml` accepts what the reader accepts, and refuses what it refuses."""

import functools
import tomllib
from typing import Any

import pytest

from grader.course import course
from grader.course.course import schema
from grader.errors import CourseError
from tests.conftest import ROOT

SMOOTHING = ROOT / "docs" / "examples" / "smoothing"


@functools.cache
def validator() -> Any:
    """The class that validates. It takes a second to import, which each process of a test run would do."""
    from jsonschema import Draft7Validator

    return Draft7Validator


def refused(text: str) -> bool:
    return not validator()(schema()).is_valid(tomllib.loads(text))


def test_courses_that_there_are():
    validator().check_schema(schema())
    for root in (ROOT, SMOOTHING):
        assert not refused((root / course.FILE).read_text())


@pytest.mark.parametrize(
    "text",
    [
        "private = true",
        'title = ""',
        'title = "A"\ntitel = "B"',
        'title = "A"\nprivate = "yes"',
        'title = "A"\npart = "I"',
        'title = "A"\n[[part]]\ntitle = "I"',
        'title = "A"\n[[part]]\nproblems = []',
        'title = "A"\n[[part]]\ntitle = "I"\nproblem = []\nproblems = []',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [{ points = 8 }]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [{ problem = "x", include = "x" }]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [{ include = "p04_layer_norm", points = -1 }]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = ["layer_norm"]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [{ include = "layer_norm" }]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [{ include = 4 }]',
        'title = "A"\n[[part]]\ntitle = "I"\nproblems = [4]',
        'title = "A"\ntask = "speedrun"',
        'title = "A"\n[[task]]\nname = "speedrun"',
        'title = "A"\n[[task]]\nname = "Speed run"\nafter = "p32_tinystories"',
        'title = "A"\n[[task]]\nname = "speedrun"\nafter = "32"',
        'title = "A"\n[[task]]\nname = "speedrun"\nafter = "p32_tinystories"\npoints = 3',
    ],
)
def test_what_the_reader_refuses(text, tmp_path):
    (tmp_path / course.FILE).write_text(text)
    with pytest.raises(CourseError):
        course.read(tmp_path)
    assert refused(text)
