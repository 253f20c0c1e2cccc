"""Why each reference is written so."""

import re

import pytest

from grader.course import catalog
from grader.report.markdown_html import to_html

pytestmark = pytest.mark.fast
_CODE = re.compile(r"`[^`]*`")
_ENDS = re.compile(r"[.!?](?= |$)")


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_three_or_four_short_sentences(problem):
    text = catalog.why(problem)
    sentences = len(_ENDS.findall(_CODE.sub("x", text)))
    assert 3 <= sentences <= 4
    assert len(text.split()) <= 25 * sentences, "short"
    html = to_html(text)
    assert html.startswith("<p>")
    assert html.count("<p>") == 1, "one paragraph, without a heading, a list or a block of code"
    assert not re.search(r"<(h\d|ul|ol|pre)", html)
