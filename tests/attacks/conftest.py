"""The arena of all attacks."""

from collections.abc import Iterator

import pytest

from grader.isolation.sandbox import ForkServer
from tests.attacks.arena import Arena


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Arena]:
    arena = Arena(tmp_path_factory.mktemp("arena"), fork_server)
    yield arena
    arena.close()
