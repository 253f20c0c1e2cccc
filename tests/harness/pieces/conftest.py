"""Fixtures of the tests of pieces."""

import pytest


@pytest.fixture
def strict_ranks() -> None:
    """Learners may rely on rank promotion; the harness's own code may not."""
