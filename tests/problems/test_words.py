"""What problems say in their own words of a wrong value, and what they show of their inputs."""

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
        ("52", "some tokens accepted", "output.0", (1,), "0", "`tokens[1]` is 0, expected 3"),
        ("52", "some tokens accepted", "output.1", (), "0", "`count` is 0, expected 3"),
        ("29", "greedy text", "text.depends_on_key", (), "1",
         "at temperature 0, another key gives another text; the most likely token must be certain"),
        ("29", "frequencies of drawn tokens", "frequencies.ended_early", (), "1",
         "a text has fewer than `num_tokens` tokens, although its stop token is not in the vocabulary"),
        ("29", "frequencies of drawn tokens", "frequencies.draws", (), "0",
         "not judged yet: frequencies say nothing until the check “use of the random key” passes"),
        ("29", "frequencies of drawn tokens", "frequencies.outside_top_k", (), "1",
         "tokens are drawn that `top_k` excludes"),
        ("29", "greedy text", "text", (1,), "7", ""),
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
