"""The works that the pages name: complete, named alike on all pages, and listed for the book."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from grader.course import catalog, sources
from grader.errors import CourseError

pytestmark = pytest.mark.fast

WORKS = [(problem.label, work) for problem in catalog.problems() for work in sources.of(problem)]


def test_a_paper_has_authors_a_year_and_a_title():
    documentation = re.compile(r"The .+|IEEE 754, \*.+\*")
    paper = re.compile(r"\S.* (1[89]|20)\d\d, \*[^*]+\*(, .+)?")
    assert [work for _, work in WORKS if not documentation.fullmatch(work) and not paper.fullmatch(work)] == []


def test_the_year_is_that_of_the_first_version():
    for label, work in WORKS:
        if found := re.search(r" (\d{4}), \*.*, arXiv (\d\d)(\d\d)\.\d{4,5}$", work):
            year, number, month = map(int, found.groups())
            # Numbers of January are also given to what was handed in at the end of December.
            assert year == 2000 + number or (month == 1 and year == 1999 + number), (label, work)


def test_a_work_is_named_alike_on_all_pages():
    by_title = defaultdict(set)
    for _, work in WORKS:
        if " documentation" not in work:
            by_title[(re.search(r"\*(.+?)\*", work) or [work, work])[1].casefold()].add(work)
    assert [works for works in by_title.values() if len(works) > 1] == []


def test_the_list_names_each_work_once_with_its_pages():
    text = sources.as_page()
    assert len(re.findall(r"^- ", text, re.MULTILINE)) == len({work for _, work in WORKS})
    assert (
        "- Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): "
        "[01](p01_token_embedding.md#sources), [02](p02_causal_attention.md#sources), [03](p03_causal_mha.md#sources)."
    ) in text
    assert text.index("- Gu and Dao 2023") < text.index("- Hägele et al. 2024") < text.index("- He et al. 2015")


def test_a_source_says_what_the_page_has_of_it(tmp_path: Path):
    (tmp_path / "page.md").write_text("# 01 · A\n\n## Sources\n\n- Somebody 2020, *A: title*.\n")
    with pytest.raises(CourseError, match=r"the source 'Somebody 2020, \*A: title\*\.' needs a colon"):
        sources.of(replace(catalog.find("01"), folder=tmp_path))
