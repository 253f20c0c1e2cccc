"""The sentences of a page that promise something, and the bullets of its pitfalls."""

from dataclasses import replace
from pathlib import Path

import pytest

from grader.course import catalog, promises
from grader.errors import CourseError
from grader.problem import Problem

pytestmark = pytest.mark.fast

PAGE = """# 07 · A page

## Pitfalls

- The first, with
  a second line.
  - A part of it.
* The second.
1. The third.

## The problem

```text
f(x) -> y  # any x must do
```

The rate may be 0.5, e.g. `a. B`, i.e. `May`. Write
`f`. `x.any()` counts nothing. It is **never** called! (It must not be.) "May it?" Many do, as do anyone and Dismay.

## Inputs

- `x`: float32, (T,), at
  least one row. `n`: T.
  1. At most 3.
- See `jnp.may`: fine.

| argument | size |
|---|:--:|
| `y` | any. Greater than 1 |

## Output

Nothing is not required.
"""


def problem_with(folder: Path, text: str, page: str = PAGE):
    problem = replace(catalog.find("07"), folder=folder / "problems" / "p07_next_token_loss")
    problem.folder.mkdir(parents=True)
    (folder / "solutions").mkdir()
    (problem.folder / "page.md").write_text(page)
    (folder / "solutions" / "p07_next_token_loss.py").write_text("a = 1\n")
    (folder / "solutions" / "p07_next_token_loss.toml").write_text(text)
    return problem


def test_sentences_that_promise(tmp_path: Path):
    assert promises.promising(problem_with(tmp_path, "")) == [
        "The rate may be 0.5, e.g. `a. B`, i.e. `May`.",
        "It is **never** called!",
        "(It must not be.)",
        '"May it?"',
        "`x`: float32, (T,), at least one row.",
        "At most 3.",
        "any.",
        "Greater than 1",
        "Nothing is not required.",
    ]


def test_bullets(tmp_path: Path):
    first = "The first, with a second line. - A part of it."
    assert promises.pitfalls(problem_with(tmp_path, "")) == [first, "The second.", "The third."]


IDEA = "[[misconception]]\nname = 'n'\nsays = 's'\nfind = 'a = 1'\nreplace = 'a = 2'\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[promise]]\npage = 'x'\n", "promise 1 must have page, check, and either broken_by or kept_by; it has page."),
        ("[[promise]]\npage = 'x'\ncheck = 'c'\nby = 'n'\n", "promise 1 must have .* it has page, check, by."),
        ("[[promise]]\npage = 'x'\ncheck = 1\n", "the values of promise 1 must be strings"),
        (
            "[[promises]]\npage = 'x'\n",
            r"can have only why, core, \[\[frame\]\], \[\[misconception\]\], \[\[promise\]\] and \[\[claim\]\]; it has "
            "'promises'",
        ),
        ("promise = 3\n", "it has 'promise'"),
    ],
)
def test_an_entry_that_cannot_be_read(text: str, said: str, tmp_path: Path):
    with pytest.raises(CourseError, match=said):
        promises.promises(problem_with(tmp_path, text))


def test_a_pitfall_is_a_beginning_or_a_list_of_them(tmp_path: Path):
    pitfalls = ["", "pitfall = 'The first'\n", "pitfall = ['The first', 'The  second.']\n"]
    problem = problem_with(tmp_path, "".join(IDEA.replace("'n'", f"'n{i}'") + text for i, text in enumerate(pitfalls)))
    items = catalog.misconceptions(problem)
    covered = [[item.name for item in promises.of_pitfall(one, items)] for one in promises.pitfalls(problem)]
    assert covered == [["n1", "n2"], ["n2"], []]
    assert list(promises.pitfall_faults(problem)) == ["no misconception has the pitfall: The third."]


def test_every_fault_of_an_entry(tmp_path: Path):
    page = "## The problem\n\nIt must be 1. It may be 2.\n\n## Pitfalls\n\n- A b.\n- A c.\n"
    check = catalog.find("07").checks[0].name
    rows = [
        {"page": "It must\n  be 1.", "check": check, "broken_by": "n"},
        {"page": "It must be 3.", "check": check, "broken_by": "n"},
        {"page": "It must be 1.", "check": "no", "broken_by": "m"},
        {"page": "It must be 1.", "check": check, "kept_by": "no.py"},
        {"page": "It must be 1.", "check": check, "kept_by": "no.py", "broken_by": "n"},
        {"page": "It must be 1.", "check": check},
    ]
    text = "".join("[[promise]]\n" + "".join(f"{key} = '''{value}'''\n" for key, value in row.items()) for row in rows)
    problem = problem_with(tmp_path, text + IDEA + "pitfall = ['A', 'B']\n", page)
    without_styles = list(promises.faults(problem, promises.promises(problem)))
    assert not any("another style" in fault for fault in without_styles), "as in an installed course"
    (tmp_path / "tests" / "problems" / "styles").mkdir(parents=True)
    of = "for the promise: It must be 1."
    assert list(promises.faults(problem, promises.promises(problem))) == [
        "no [[promise]] for the page's sentence: It may be 2.",
        "the page has no such promise: It must be 3.",
        f"there is no check 'no', which is named {of}",
        f"there is no misconception 'm', which is named {of}",
        f"there is no correct program in another style 'no.py', which is named {of}",
        f"give either broken_by or kept_by, not both or neither, {of}",
        f"there is no correct program in another style 'no.py', which is named {of}",
        f"give either broken_by or kept_by, not both or neither, {of}",
    ]
    assert list(promises.pitfall_faults(problem)) == [
        "a `pitfall` of 'n' must begin one pitfall of the page; it begins 2: A",
        "a `pitfall` of 'n' must begin one pitfall of the page; it begins 0: B",
    ]


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_every_page_is_covered(problem: Problem):
    """Each pitfall is a misconception, and each promise has an entry; `grade verify` proves that the checks keep it."""
    assert [*promises.faults(problem, promises.promises(problem)), *promises.pitfall_faults(problem)] == []
