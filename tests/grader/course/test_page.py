"""Pages: their sections, and their hints apart from the rest."""

import pytest

from grader.course import catalog, page

pytestmark = pytest.mark.fast


@pytest.fixture(params=catalog.names())
def problem(request):
    return catalog.load(request.param)


def test_every_page_has_the_sections_in_order(problem):
    assert list(page.sections(problem)) == list(page.SECTIONS)
    assert all(page.sections(problem).values())


def test_hints_are_apart(problem):
    text, hints = page.without_hints(problem), page.hints(problem)
    assert len(hints) >= 3
    assert "## Hints" not in text
    assert not any(hint in text for hint in hints)
    assert catalog.page_text(problem).startswith(text.rstrip())
