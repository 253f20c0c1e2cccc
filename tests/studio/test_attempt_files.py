"""Saving a text over the one that it is based on."""

from pathlib import Path

import pytest

from grader.course import catalog
from grader.course.workspace import Workspace
from studio import attempt_files
from studio.attempt_files import ConflictError

pytestmark = pytest.mark.fast


def test_a_text_that_the_file_has_already_is_no_conflict(tmp_path: Path):
    """The answer to a save can get lost, and the page sends it again."""
    space, problem = Workspace(tmp_path), catalog.find("07")
    stub = attempt_files.read(space, problem)
    saved = attempt_files.save(space, problem, "one = 1\n", stub.digest)
    assert attempt_files.save(space, problem, "one = 1\n", stub.digest) == saved
    with pytest.raises(ConflictError) as error:
        attempt_files.save(space, problem, "two = 2\n", stub.digest)
    assert error.value.present == saved
    assert space.file(problem).read_text() == "one = 1\n"
