"""Whether the cases of a problem reach the sizes that people meet, and what is said where they do not."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from grader.course import cases, dimensions
from grader.problem import Cases, Check, Entry, Problem

pytestmark = pytest.mark.fast


def problem(
    values: Mapping[str, Any], without: Mapping[str, str] | None = None, covers: tuple[str, ...] = (), **sizes: int
):
    family = Cases(lambda drawn, rng: values, {name: (size,) for name, size in sizes.items()}, draws=1, covers=covers)
    check = Check("output", 1, "values")
    return Problem("Demo", (Entry("f", ("x",)),), {"cases": family}, (check,), without=without or {})


def faults(*args: Any, **kwargs: Any) -> list[str]:
    made = problem(*args, **kwargs)
    return list(dimensions.faults(made, cases.draw_all(made, 0)))


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("layers", {"num_layers": 11}, {"num_layers": 12}),
        ("steps", {"decay_steps": 2000}, {"decay_steps": 200_000}),
        ("steps", {"step": np.array([1, 2], np.int32)}, {"step": np.array([1, 200_001], np.int32)}),
        ("vocabulary", {"vocab_size": 11}, {"vocab_size": 50_257}),
        ("vocabulary", {"logits": np.zeros((2, 5))}, {"logits": np.zeros((2, 50_257))}),
        ("coprime", {"x": np.zeros((4, 6))}, {"x": np.zeros((4, 9))}),
        ("axes", {"kernel": np.zeros((4, 9))}, {"kernel": np.zeros((4, 9, 5))}),
        ("text", {"text": "a café"}, {"text": "a café 🦊"}),
        ("magnitudes", {"x": np.ones(3)}, {"x": np.array([1e-30, 1.0, 2.0])}),
        ("one", {"num_heads": 2}, {"num_heads": 1}),
    ],
)
def test_a_dimension_is_covered_only_by_a_case_of_its_size(name: str, small: dict[str, Any], large: dict[str, Any]):
    (told,) = (fault for fault in faults(small, covers=(name,)) if f"cover {name!r}, but none has" in fault)
    assert next(each.words for each in dimensions.DIMENSIONS if each.name == name) in told
    assert not any(repr(name) in fault for fault in faults(large, covers=(name,)))


def test_a_dimension_that_concerns_a_problem_must_be_covered_or_have_a_reason():
    (told,) = faults({"num_layers": 2, "num_heads": 1}, covers=("one",))
    assert told.startswith(
        "no cases cover 'layers', and the problem has `num_layers`: add a case with 12 layers or more"
    )
    assert faults({"num_layers": 2}, {"layers": "each takes a second"}, covers=("one",), T=1) == []


def test_sizes_count_as_well_as_inputs():
    assert faults({"num_layers": 3}, covers=("layers", "one"), L=12, T=1) == []


def test_what_is_declared_must_be_so():
    told = faults({"num_layers": 12}, {"layers": "too slow", "deep": "no"}, covers=("layers", "one", "wide"), T=1)
    assert told == [
        "there is no dimension 'deep'; they are layers, steps, vocabulary, coprime, axes, text, magnitudes, one",
        "there is no dimension 'wide'; they are layers, steps, vocabulary, coprime, axes, text, magnitudes, one",
        "`without` gives a reason for 'layers', which the cases 'cases' cover",
    ]
