"""The numbers and the sentences of a page that need an example, and those that have one."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader.course import catalog, claims
from grader.errors import CourseError
from grader.problem import Problem

pytestmark = pytest.mark.fast

PAGE = """# 07 · A page

## The ideas

`f` raises a ValueError. Numbers here, such as 5, need nothing. It says "`x.raises`" in code only.

## A worked sketch

Take 1,000 and 0.50. The sum is 1000.5, and the mean 3.

```text
(7, 8)
```

## Pitfalls

- A row that is dropped. The loss is NaN.

## Examples

```python
>>> 1000 + 0.5
1000.5
```
"""


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    folder = tmp_path / "problems" / "p07_next_token_loss"
    folder.mkdir(parents=True)
    (folder / "page.md").write_text(PAGE)
    return replace(catalog.find("07"), folder=folder)


def with_claims(problem: Problem, text: str) -> list[claims.Claim]:
    path = problem.home / "solutions" / "p07_next_token_loss.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    path.with_suffix(".toml").write_text(text)
    return claims.claims(problem)


def test_numbers_of_the_sketch_and_sentences_on_behavior_need_an_example(problem: Problem):
    assert list(claims.faults(problem, with_claims(problem, ""))) == [
        "no example has the number 3 of the worked sketch: The sum is 1000.5, and the mean 3.",
        "no example has the number 7 of the worked sketch: (7, 8)",
        "no [[claim]] for the page's sentence: `f` raises a ValueError.",
        "no [[claim]] for the page's sentence: A row that is dropped.",
        "no [[claim]] for the page's sentence: The loss is NaN.",
    ]


def test_an_example_or_a_reason_is_enough(problem: Problem):
    entries = with_claims(
        problem,
        """
[[claim]]
page = ["`f` raises", "The loss is NaN"]
example = '''
>>> 3 + 7
10
'''

[[claim]]
page = "(7, 8)"
because = "A drawing."

[[claim]]
page = "A row"
because = "No code drops it."
""",
    )
    assert list(claims.faults(problem, entries)) == []
    assert claims.examples(problem) == ">>> 3 + 7\n10"


def test_a_claim_about_nothing_is_a_fault(problem: Problem):
    entries = with_claims(problem, '[[claim]]\npage = "Nowhere"\nexample = "1 + 1"\n')
    told = list(claims.faults(problem, entries))
    assert "the page has no sentence that begins so, for a [[claim]]: Nowhere" in told
    assert "the example of a [[claim]] has no `>>>` line: Nowhere" in told


@pytest.mark.parametrize("row", ['page = "A row"', 'page = "A row"\nexample = ">>> 1"\nbecause = "x"', 'because = "x"'])
def test_a_claim_has_a_page_and_an_example_or_a_reason(problem: Problem, row: str):
    with pytest.raises(CourseError, match="claim 1 must have `page`, and either `example` or `because`"):
        with_claims(problem, f"[[claim]]\n{row}\n")
