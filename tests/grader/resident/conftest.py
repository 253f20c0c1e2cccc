"""One resident judge for the tests that do not restart it, and the folder of its socket."""

from collections.abc import Iterator

import pytest

from grader.resident import client
from grader.resident.resident import Resident


@pytest.fixture(scope="module")
def runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for sockets of its own, so that no test meets the resident judge of somebody's watch mode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        patch.setenv("GRADE_RESIDENT", "")
        patch.setattr(client, "WAIT", 10.0)  # the machine of the tests may be busy
        yield


@pytest.fixture(scope="module")
def resident(runtime_folder: None) -> Iterator[Resident]:
    with Resident() as resident:
        yield resident
