"""What problems say in their own words of a wrong value, and what they show of their inputs."""

import ast
import re

import pytest

from grader.course import cases, catalog
from grader.problem import Difference

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("number", "check", "path", "index", "got", "sentence"),
    [
        ("01", "a story longer than max_T raises", "raises.2", (), "a returned value",
         "a story of 5 tokens for 3 positions returned a result; 3 expected"),
        ("01", "a story of exactly max_T tokens fits", "fits.1.outcome", (), "ValueError",
         "a story of 3 tokens for 3 positions raised ValueError; 3 expected"),
        ("09", "five updates", "update.2.kernel", (0, 1), "7", "the update of `kernel[0, 1]` at step 2 is 7, expected 3"),
        ("09", "first update", "update.0.temperature", (), "7", "the update of `temperature` at step 0 is 7, expected 3"),
        ("10", "warm-up", "rate.warmup", (2,), "7", "the rate at step 2 is 7, expected 3"),
        ("10", "cosine", "rate.cosine", (1,), "7", "the rate at step 5 is 7, expected 3"),
        ("10", "after decay_steps", "rate.after", (1,), "7", "the rate at step 13 is 7, expected 3"),
        ("16", "each example once per epoch", "times_seen", (1, 5), "0", "row 5 is read 0 times in epoch 1, expected 3"),
        ("16", "resumes at the right batch", "resumed.at_batch", (3,), "7",
         "after a resume with the state of batch 6, the next batch is batch 7, expected batch 3"),
        ("16", "resumes at the right batch", "resumed.continues", (1,), "0",
         "after a resume with the state of batch 1, a later batch is not the one that follows"),
        ("47", "tensor-parallel collectives", "exchanged.all_reduce", (), "7",
         "in the compiled program, `psum` produces 7 bytes on each device, expected 3"),
        ("47", "tensor-parallel collectives", "output", (), "7",
         "`output` is 7, expected 3; a program is measured only if its values are right"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_the_words_of_the_problem(number, check, path, index, got, sentence):
    problem = catalog.find(number)
    (check,) = (item for item in problem.checks if item.name == check)
    case = cases.draw(problem, check.cases, 0)[0]
    assert check.in_words(case, Difference(path, index, "3", got)) == sentence


@pytest.mark.parametrize("number", ["09", "11", "16"])
def test_the_numbers_among_the_inputs_are_always_shown(number):
    problem = catalog.find(number)
    for group, family in problem.cases.items():
        for case in cases.draw(problem, group, 0):
            numbers = {name: value for name, value in case.values.items() if not hasattr(value, "shape")}
            shown = family.show(case.values)
            assert {name: shown.get(name) for name in numbers} == numbers


def returned_parts(stub: ast.Module, entry: str) -> int:
    """How many parts the tuple has that an entry returns, by its annotation in the stub; 0 if it returns no tuple."""
    node = next(node for node in stub.body if getattr(node, "name", "") == entry)
    if isinstance(node, ast.ClassDef):
        node = next(item for item in node.body if getattr(item, "name", "") == "__call__")
    match node.returns:
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=parts)):
            return len(parts)
    return 0


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_the_parts_of_a_returned_tuple_have_the_names_of_the_page(problem):
    stub, text = ast.parse(catalog.stub_text(problem)), catalog.page_text(problem)
    for entry in problem.entries:
        defined = {getattr(node, "name", "") for node in stub.body}
        assert entry.name not in defined or returned_parts(stub, entry.name) == len(entry.returns)
        assert all(re.search(rf"\b{name}\b", text) for name in entry.returns)
