"""Creates the files of a new problem, and lists what its author must still write.

The files make up a small problem that works: its entry returns 2 x + 1. What is particular to the new problem is marked with
TODO, so that `grade verify` has nothing else to complain about.
"""

import json
import keyword
import re
from pathlib import Path
from string import Template

from commandline import files
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.course import catalog
from grader.course.course import STYLES
from grader.course.selection import selected
from grader.problem import Problem

LONGEST_TITLE = 44  # characters: the column of `grade list`
_WORD = re.compile(r"(?:p?(\d{1,2})_)?((?!p\d)[a-z][a-z0-9_]*)")
_NUMBERED = re.compile(r"p(\d\d)_")
_TODO = re.compile(r"\bTODO: *(.+)")


def create(word: str, title: str | None = None) -> tuple[ProblemName, list[Path]]:
    """Writes the files of a new problem; returns its name and their paths.

    `word` is a slug, which gets the next free number, or a number and a slug. Raises UsageError if one of them is taken or not
    valid, or if a file exists; then nothing is written.
    """
    root = selected().root
    if not (root / STYLES).is_dir():
        raise UsageError(
            f"{root / STYLES} is missing. Problems are written where the course has its tests, such as in a clone."
        )
    name = _name(word)
    title = _title(name.slug.replace("_", " ").capitalize() if title is None else title)
    texts = {root / path: text for path, text in texts_of(name, title).items()}
    try:
        for path, text in texts.items():
            files.write(path, text)
    except BaseException:
        for path in texts:
            path.unlink(missing_ok=True)
        if (root / "problems" / name).is_dir():
            (root / "problems" / name).rmdir()
        raise
    catalog.forget()
    return name, list(texts)


def texts_of(name: ProblemName, title: str) -> dict[str, str]:
    """The texts of a problem's files, by path below the course's folder."""
    values = {"label": name.label, "name": name, "slug": name.slug, "title": title,
              "quoted_title": json.dumps(title, ensure_ascii=False)}  # fmt: skip
    return {Template(path).substitute(values): Template(text).substitute(values) for path, text in _FILES.items()}


def open_items(problem: Problem) -> list[str]:
    """What is still to write: a line for each TODO in the problem's files."""
    items = []
    for path in _source_files(problem):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if match := _TODO.search(line):
                items.append(f"{path.name}, line {number}: still to write: {match[1].rstrip()}")
    return items


def _source_files(problem: Problem) -> list[Path]:
    """The text files of a problem that an author writes."""
    own = sorted(path for path in problem.folder.glob("*") if path.suffix in (".md", ".py"))
    solution = sorted(problem.home.glob(f"solutions/{problem.name}.*"))
    return [*own, *solution, *catalog.styles(problem)]


def _name(word: str) -> ProblemName:
    """The name of the new problem. Raises UsageError."""
    match = _WORD.fullmatch(word)
    if not match or keyword.iskeyword(match[2]):
        raise UsageError(
            f"{word!r} is not a valid slug: use lower-case letters, digits and underscores, such as demo or 98_demo; "
            "a keyword of Python cannot be one."
        )
    used = _used()
    if match[1]:
        number = int(match[1])
        if not 1 <= number <= 99:
            raise UsageError(f"{number} is not a valid number; problems are numbered from 1 to 99.")
    else:
        number = next((number for number in range(1, 100) if number not in used), 0)
        if not number:
            raise UsageError("All numbers from 1 to 99 are taken.")
    if number in used:
        raise UsageError(f"Problem {number:02} already exists: {used[number]}. Choose another number.")
    for other in catalog.names():
        if other.slug == match[2]:
            raise UsageError(f"The slug {match[2]} belongs to problem {other.label}; choose another slug.")
    return ProblemName(f"p{number:02}_{match[2]}")


def _used() -> dict[int, str]:
    """A name or path for each number that is taken, relative to the course."""
    root = selected().root
    existing = (path for folder in (STYLES, "solutions", "problems") for path in (root / folder).glob("*"))
    numbered = ((_NUMBERED.match(path.name), path) for path in existing)
    taken = {int(match[1]): path.relative_to(root).as_posix() for match, path in numbered if match}
    return {listed.name.number: str(listed.name) for listed in selected().problems} | taken


def _title(title: str) -> str:
    """The title, if it can stand in a docstring and in a heading. Raises UsageError."""
    if not title.strip() or not title.isprintable() or '"' in title or "\\" in title:
        raise UsageError(f"{title!r} is not a valid title: write one line without double quotes or backslashes.")
    if len(title) > LONGEST_TITLE:
        raise UsageError(f"The title has {len(title)} characters; at most {LONGEST_TITLE} fit in `grade list`.")
    return title.strip()


_PAGE = """# $label · $title

## Why this matters

TODO: why this matters: the question that the reader has, and where the answer is used

## The architecture

```text
x (T, D) ──► times 2 ──► plus 1 ──► (T, D)
```

TODO: the drawing: what goes in, what comes out, and the shape of each

## The ideas

TODO: the ideas: a short paragraph for each, with its name in bold

## A worked sketch

The row (1, 2) becomes (3, 5).

TODO: the worked sketch: the whole computation with small numbers

## Pitfalls

- The one is added before doubling. Then it is doubled, too.

TODO: the pitfalls: what goes wrong, and how it shows; each is a misconception

## The problem

```text
$slug(x) -> out
```

TODO: the problem: what to write, and what is allowed

## Inputs

- `x`: float32, (T, D). Its numbers may be negative.

TODO: the inputs: dtype, shape and meaning of each argument

## Output

- (T, D), float32.

TODO: the output: dtype, shape and meaning

## Examples

```python
>>> import jax.numpy as jnp
>>> from $name import $slug
>>> print($slug(jnp.array([[1.0, 2.0]])))
[[3. 5.]]
```

TODO: the examples: small inputs whose output the reader can check by hand

## Hints

1. TODO: the first hint: a nudge
2. TODO: the second hint: the main step
3. TODO: the third hint: nearly the answer
"""

_STUB = '''"""Problem $label: $title. The page is in pages/$name.md."""

import jax.numpy as jnp
from jaxtyping import Array, Float


# TODO: the entry: its full signature with shapes, and a docstring
def $slug(x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """x: (T, D). Returns 2 x + 1, (T, D)."""
    raise NotImplementedError
'''

_DEFINITION = '''"""Problem $label: $title."""

from collections.abc import Mapping
from typing import Any

from grader.checks import jit, output_and_gradient
from grader.problem import Cases, Entry, Problem


# TODO: the cases: the inputs, drawn from these sizes
def rows(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"x": rng.standard_normal((sizes["T"], sizes["D"])).astype("float32")}


# TODO: the checks: what is graded, with points
PROBLEM = Problem(
    title=$quoted_title,
    entries=(Entry("$slug", ("x",)),),
    cases={"cases": Cases(rows, {"T": (1, 2, 5), "D": (3, 7)}, covers=("coprime", "one"))},
    checks=(
        *output_and_gradient("$slug", wrt=["x"], points=(2, 1)),
        jit("$slug", points=1),
    ),
)
'''

_PLAY = '''"""Problem $label, played: $title."""

import jax.numpy as jnp

from grader.exhibits import Bar, Bars

NUMBERS = (-1.0, 0.0, 1.0, 2.0)


# TODO: show what the piece does in a real model, so that learners see why it exists
def play(module):
    """What the learner's function makes of a few numbers."""
    (row,) = module.$slug(jnp.array([NUMBERS]))
    bars = tuple(Bar(f"{x:g}", y, x) for x, y in zip(NUMBERS, row, strict=True))
    yield Bars("What comes out of your function", bars, "value", names=("out", "in"))
'''

_REFERENCE = '''"""Problem $label, reference: $title."""

from jaxtyping import Array, Float


# TODO: the reference: the solution, to be read from top to bottom
def $slug(x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """The doubled row, plus one."""
    return 2 * x + 1
'''

_MISCONCEPTIONS = """# TODO: the promises of the page, each with the check that sees it broken
[[promise]]
page = 'Its numbers may be negative.'
check = 'output'
broken_by = 'sign ignored'

# TODO: the misconceptions: wrong ideas that people really have, each as an edit to the reference
[[misconception]]
name = 'sign ignored'
says = 'The absolute value of x is doubled. Keep the sign of x.'
find = '2 * x + 1'
replace = '2 * abs(x) + 1'

[[misconception]]
name = 'added before doubling'
pitfall = 'The one is added before doubling.'
says = 'The one is added first, so it is doubled too. Double x, then add.'
find = '2 * x + 1'
replace = '2 * (x + 1)'

[[misconception]]
name = 'nothing added'
says = 'x is doubled, but the one is missing. Add 1 to the doubled row.'
find = '2 * x + 1'
replace = '2 * x'
"""

_ROW_BY_ROW = '''"""One row at a time."""

import jax


# TODO: a correct program in another style than the reference
def $slug(x):
    return jax.vmap(lambda row: row + row + 1)(x)
'''

_OTHER_ORDER = '''"""The half is added first."""


# TODO: a second correct program in yet another style
def $slug(x):
    return (x + 0.5) * 2
'''

_FILES = {
    "problems/$name/page.md": _PAGE,
    "problems/$name/stub.py": _STUB,
    "problems/$name/problem.py": _DEFINITION,
    "problems/$name/play.py": _PLAY,
    "solutions/$name.py": _REFERENCE,
    "solutions/$name.toml": _MISCONCEPTIONS,
    "tests/problems/styles/p${label}_row_by_row.py": _ROW_BY_ROW,
    "tests/problems/styles/p${label}_other_order.py": _OTHER_ORDER,
}
