"""The probe of problem 05: a block whose second norm reads a row of small numbers, too. Runs in workers."""

from typing import Any

import jax

from grader.authoring import Arrays, Reading, Subject, named
from grader.problem import Case

QUIET, LOUD = 1e-3, 30.0  # of what attention adds, and of what the feed-forward network reads


def small_numbers(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The output with an attention that adds little, so that the epsilon of both norms shows, and a large scale in the
    second."""
    call, parameters, arrays = subject.bind(entry, case)

    def scaled(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path)
        return leaf * (QUIET if "out_proj" in name else LOUD if "ln2" in name and "scale" in name else 1.0)

    def program(p: Any, x: Arrays) -> Arrays:
        return named(call(jax.tree_util.tree_map_with_path(scaled, p), x), "output")

    return subject.run(program, case, parameters, arrays)


PROBES = {"small_numbers": small_numbers}
