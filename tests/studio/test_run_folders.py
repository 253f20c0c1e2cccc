"""What the studio computes from the folder of a run."""

from pathlib import Path

import pytest

from studio.run_folders import RunFolders
from tests.studio.test_runs import write_run

pytestmark = pytest.mark.fast


def test_the_time_left_is_that_of_the_steps_that_remain(tmp_path: Path):
    """Each of the 40 steps has 512 tokens, at 1,000 a second."""
    folders = RunFolders(tmp_path)
    for name, last, seconds in (("begun", 2, 38 * 0.512), ("nearly", 39, 0.512), ("finished", 40, 0.0)):
        write_run(tmp_path, name, last)
        assert folders.state(name).seconds_left == pytest.approx(seconds), name
    write_run(tmp_path, "new", 1)
    assert folders.state("new").seconds_left is None, "one step does not say how many tokens a step has"
