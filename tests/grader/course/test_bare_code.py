"""A program without what does not run."""

import pytest

from grader.course import catalog
from grader.course.bare_code import without_comments, without_imports

pytestmark = pytest.mark.fast

TEXT = '''"""A module."""

import jax  # for jnp
from jax import (
    numpy as jnp,
)

# The scale.
SCALE = "# no comment"  # a comment


def f(x):
    """Doubles."""

    # twice
    return 2 * x  # twice


class Empty:
    """Only a docstring."""
'''


def test_comments_docstrings_and_imports_go():
    bare = without_comments(TEXT)
    assert bare.startswith("import jax\nfrom jax import (\n")
    assert without_imports(bare) == (
        'SCALE = "# no comment"\n\n\ndef f(x):\n    return 2 * x\n\n\nclass Empty:\n    """Only a docstring."""\n'
    )


def test_a_text_that_is_not_python_is_refused():
    with pytest.raises(SyntaxError):
        without_imports("def f(:")


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_references_stay_valid(problem):
    text = catalog.solution_text(problem)
    bare = without_imports(without_comments(text))
    compile(bare, problem.name, "exec")
    assert all(f" {entry.name}" in bare for entry in problem.entries)
