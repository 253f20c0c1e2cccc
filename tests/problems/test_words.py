"""What problems say in their own words of a wrong value, and what they show of their inputs."""

import ast
import re

import numpy as np
import pytest

from grader.course import cases, catalog
from grader.problem import Case, Difference

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("number", "check", "path", "index", "got", "sentence"),
    [
        ("01", "a story longer than max_T raises", "raises.2", (), "a returned value",
         "a story of 5 tokens for 3 positions returned a result; 3 expected"),
        ("01", "a story of exactly max_T tokens fits", "fits.1.outcome", (), "ValueError",
         "a story of 3 tokens for 3 positions raised ValueError; 3 expected"),
        ("09", "five updates", "update.2.blocks.0.kernel", (0, 1), "7",
         "the update of `blocks.0.kernel[0, 1]` at step 2 is 7, expected 3"),
        ("09", "first update", "update.0.temperature", (), "7", "the update of `temperature` at step 0 is 7, expected "
            "3"),
        ("10", "warm-up", "rate.warmup", (2,), "7", "the rate at step 2 is 7, expected 3"),
        ("10", "cosine", "rate.cosine", (1,), "7", "the rate at step 5 is 7, expected 3"),
        ("10", "after decay_steps", "rate.after", (1,), "7", "the rate at step 13 is 7, expected 3"),
        ("10", "a long run", "rate.cosine", (1,), "7", "the rate at step 20,753 is 7, expected 3"),
        ("10", "inside an optimizer", "rate", (2,), "7", "the rate at step 2 is 7, expected 3"),
        ("10", "stable, then a line", "rate.decay", (1,), "7", "the rate at step 10 is 7, expected 3"),
        ("13", "bad steps skipped", "update.2.z.0.bias", (1,), "7", "the update of `z.0.bias[1]` at step 2 is 7, "
            "expected 3"),
        ("13", "skipped steps counted", "skipped.4", (), "7", "`skipped` after step 4 is 7, expected 3"),
        ("13", "inner state unchanged by bad steps", "inner.1", (0,), "7",
         "the inner mean of `z.0.bias[0]` after all steps is 7, expected 3"),
        ("14", "last loss near 0", "last_loss", (), "nan",
         "the training diverges: the loss of the model after 150 steps is nan, expected 3"),
        ("14", "last loss near 0", "last_loss", (), "57",
         "the training diverges: the loss of the model after 150 steps is 57, above ln V = 3.00 of a model that knows "
         "nothing; expected 3"),
        ("14", "last loss near 0", "last_loss", (), "2.9", "the loss of the model after 150 steps is 2.9, expected 3"),
        ("14", "every token repeated", "repeats", (4,), "7", "after the run, token 4 is answered with 7, expected 3"),
        ("29", "greedy text", "text.depends_on_key", (), "1",
         "at temperature 0, another key gives another text; the most likely token must be certain"),
        ("29", "frequencies of drawn tokens", "frequencies.ended_early", (), "1",
         "a text has fewer than `num_tokens` tokens, although its stop token is not in the vocabulary"),
        ("29", "frequencies of drawn tokens", "frequencies.draws", (), "0",
         "not judged yet: frequencies say nothing until the check “use of the random key” passes"),
        ("29", "frequencies of drawn tokens", "frequencies.outside_top_k", (), "1",
         "tokens are drawn that `top_k` excludes"),
        ("29", "greedy text", "text", (1,), "7", ""),
        ("29", "end before the stop token", "stopped", (1,), "-1", "your text ends after 1 token, and token 3 must "
            "follow"),
        ("46", "memory of the state", "carried_bytes", (), "7", "parameters and state take 7 bytes; 3 are allowed"),
        ("48", "only the chosen experts run", "work", (), "7", "the forward pass executes 7 scalar operations; 3 are "
            "allowed"),
        ("73", "balance after 200 steps", "fullest", (), "7", "after 200 steps, the fullest expert has 7 times the "
            "mean; 3 are allowed"),
        ("72", "keys at four times the context", "missed", (), "7", "the model misses 7 keys, expected 3"),
        ("77", "error of the outputs", "error", (), "7", "the error of the outputs is 7 times that of plain rounding; "
            "3 times is expected"),
        ("77", "under half of plain rounding", "half", (), "no", "the error of the outputs is more than half of that "
            "of plain rounding"),
        ("49", "blocks sent to neighbors only", "exchanged.turns", (), "7",
         "`ppermute` sends as much as 7 turns of all keys and values, expected at most 3"),
        ("63", "memory of one step", "program.temporary_bytes", (), "7",
         "the compiled program takes 7 bytes of temporary memory, expected 3"),
        ("64", "answers", "served.batches", (2, 1, 0), "-1",
         "call 2 of `run`, counted from 0, has no work for 'b'; expected: it starts 'b' at position 3"),
        ("83", "shared beginnings", "cache.events", (0, 2), "7",
         "`insert('a', [0, 1, 2, 3, 4, 5, 9])` (event 0) returned 7 blocks that were cached, expected 3"),
        ("83", "shared beginnings", "cache.events", (1, 3), "-1",
         "`match([0, 1, 2, 3])` (event 1) returned no block at place 0 of the last twelve, expected block 3"),
        ("83", "agents that send their text again", "steps.moves", (2, 1, 2), "7",
         "in step 2, `schedule` moves 'b' with 7 tokens sent; expected: it moves 'b' with 3 tokens sent"),
        ("83", "agents that send their text again", "steps.prompts", (2, 0, 1), "-1",
         "in step 2, `schedule` does not begin 'a'; expected: it begins 'a' at position 3"),
        ("83", "agents that send their text again", "steps.idle", (2,), "7",
         "at the end, when nothing runs, `evict` frees 7 blocks of decode worker 0; expected 3"),
        ("75", "no look-ahead", "sight.ahead", (1, 3), "yes",
         "row 1 of the second logits, which predicts token 3, depends on token 3"),
        ("75", "no look-ahead", "sight.logits", (2, 1), "no", "row 2 of the logits does not depend on token 1"),
        ("75", "tokens a run", "written.runs", (), "7", "`model.run` was called 7 times, expected 3"),
        ("75", "text", "written.tokens", (4,), "7", "token 4 of the text is 7, expected 3"),
        ("75", "one token or two", "written.length", (), "7", "`write` returned 7 tokens, expected 3"),
        ("75", "distribution of the text", "law.shares", (0, 1), "7",
         "the two tokens after the first are 0 and 1 with the probability 7; the model gives them 3"),
        ("75", "distribution of the text", "law.tokens", (2, 0, 1), "7",
         "with choice 2 of the uniform numbers, token 2 of the text is 7, expected 3"),
        ("84", "order", "order.log10_p", (), "-2", "`order_test` returned 0.01, expected 1000"),
        ("84", "false accusations", "accused.wrong", (), "7",
         "in 400 simulated families of 20 test sets, with adjusted p-values of 0.01 or less as alarms, the share of "
         "families with a false one is 7, expected 3"),
        ("66", "size of the cache", "program.cache_bytes", (), "7", "the cache takes 7 bytes, expected 3"),
        ("16", "each example once per epoch", "times_seen", (1, 5), "0", "row 5 is read 0 times in epoch 1, expected "
            "3"),
        ("16", "resumes at the right batch", "resumed.at_batch", (3,), "7",
         "after a resume of shard 1 with the state of batch 5, the next batch is batch 7, expected batch 3"),
        ("16", "resumes at the right batch", "resumed.continues", (1,), "0",
         "after a resume of shard 1 with the state of batch 1, a later batch is not the one that follows"),
        ("42", "words and their counts", "counts.00", (), "missing",
         "in the order of their first places in the text, word 0 is missing, expected 3"),
        ("42", "no special tokens", "counts.of_an_empty_text", (), "1",
         "the dictionary of an empty text has the length 1, expected 0"),
        ("42", "ties", "merges.of_6.02", (), "missing", "merge 2 is missing, expected 3"),
        ("42", "no pair left", "merges.of_0.further", (), "1", "with num_merges = 0, the length of the list is 1"),
        ("42", "ids", "encoding.n_vocab", (), "7", "the encoding has 7 ids (`n_vocab`), expected 3"),
        ("42", "ids", "encoding.round_trip", (), "0", "decoding the ids does not give the text again"),
        ("45", "product of int8 numbers", "products.int8", (), "0",
         "products of two int8 operands with an int32 result must multiply all T · D · F = 4,194,304 pairs of codes, "
         "and they multiply fewer"),
        ("45", "product of int8 numbers", "products.other", (), "1",
         "besides products of int8 numbers, the program takes at least T · D · F / 4 = 1,048,576 operations"),
        ("44", "a kernel for an accelerator", "tpu.has_a_kernel", (), "0", "the program for a TPU has no kernel that "
            "multiplies"),
        ("44", "a kernel for an accelerator", "tpu.numbers_outside", (), "7",
         "the program for a TPU has arithmetic outside of kernels, on 7 numbers in all; expected none"),
        ("46", "kernels: all updates", "kernels.ff1.kernel", (2, 0, 1), "7",
         "the update of `ff1.kernel[0, 1]` at step 2 is 7, expected 3"),
        ("46", "work of a tall matrix", "work", (), "7",
         "for a matrix of shape (96, 8), the program executes 7 scalar operations; 3 are allowed"),
        ("47", "tensor-parallel collectives", "exchanged.all_reduce", (), "7",
         "in the compiled program, `psum` produces 7 bytes on each device, expected 3"),
        ("47", "tensor-parallel collectives", "output", (), "7",
         "`output` is 7, expected 3; a program is measured only if its values are right"),
        ("78", "seconds of a product", "operation.seconds", (), "7", "`seconds` returned 7 s, expected 3 s"),
        ("78", "rate of a batch", "number", (), "7", "`decode_rate` returned 7, expected 3"),
        ("78", "best mesh", "mesh", (1,), "7", "`tensor` of the best mesh is 7, expected 3"),
        ("78", "twelve decisions", "decisions", (9,), "7",
         "decision 10: The best mesh for Llama 8B, 2,048 texts of 4,096 tokens, 64 devices? Your functions say: "
         "data = 7; expected: data = 3"),
        ("85", "patches", "patches", (0, 1), "7", "number 1 of patch 0 is channel 1 of the pixel in row 0, column 2; "
            "expected: channel 0 of the pixel in row 0, column 1 (all count from 0)"),
        ("85", "patches", "patches", (0, 1), "0.5", "number 1 of patch 0 is 0.5, which is not in the picture; "
            "expected: channel 0 of the pixel in row 0, column 1 (all count from 0)"),
        ("85", "positions", "layout.positions", (2, 0), "7", "the column of token 0 (text) is 7, expected 3"),
        ("85", "numbers of pictures", "layout.pictures", (0,), "0", "token 0 (text) belongs to no picture, expected "
            "picture 3"),
        ("85", "mask", "output", (0, 2), "True", "token 0 (text) sees token 2 (picture 1); expected: it does not see "
            "it"),
        ("85", "no loss on patches", "learns", (4,), "0", "the logits of token 4 do not count; expected: they count, "
            "because text follows"),
        ("85", "patches in another order", "changed", (4,), "1", "the output of token 4 changes when the tokens of "
            "each picture come in another order, with their positions; expected: it stays the same"),
        ("80", "pass@k", "number", (), "7", "`pass_at_k` returned 7, expected 3"),
        ("80", "vote", "vote.won", (), "0", "`majority` returned None, expected an answer"),
        ("80", "vote", "vote.answer", (), "7", "`majority` returned 7, expected 3"),
        ("80", "interval", "interval.low", (), "7", "the lower end is 7, expected 3"),
        ("80", "coverage", "coverage.width", (), "7", "your intervals are 7 wide in the mean, expected 3"),
        ("80", "coverage", "coverage.share", (), "7", "in 2,000 simulated evaluations, the share of your intervals "
            "that hold the true difference is 7, expected 3"),
        ("82", "more calls than may run", "agent.count", (), "7", "`call_tools` returned 7 results; there are 3 calls"),
        ("82", "orders in a tool's text", "agent.tools", (1, 0), "4",
         "run 1 of a tool, counted from 0, is of `pay`; expected `open`"),
        ("82", "orders in a tool's text", "agent.tools", (1, 0), "-1",
         "run 1 of a tool, counted from 0, is missing; expected `open`"),
        ("82", "a conversation", "agent.turns", (1, 0), "7",
         "for turn 1, counted from 0: 7 tokens are given to the model, expected 3"),
        ("82", "a model that never stops", "agent.length", (), "7", "the transcript has 7 tokens; expected 3"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_the_words_of_the_problem(number, check, path, index, got, sentence):
    problem = catalog.find(number)
    (check,) = (item for item in problem.checks if item.name == check)
    case = cases.draw(problem, check.cases, 0)[0]
    assert check.in_words(case, Difference(path, index, "3", got)) == sentence


def test_the_result_of_a_tool_is_shown_whole():
    (check,) = (item for item in catalog.find("82").checks if item.name == "a conversation")
    case = cases.draw(catalog.find("82"), check.cases, 0)[0]
    right, wrong = (np.array([[*text, *[-1] * (9 - len(text))]]) for text in (b'"a word"', b"a word"))

    def said(got: np.ndarray, expected: np.ndarray, place: int) -> str:
        numbers = (str(leaf[0, place]) for leaf in (expected, got))
        return check.in_words(case, Difference("agent.tokens", (0, place), *numbers, expected, got))

    assert said(wrong, right, 0) == """result 0, counted from 0, is 'a word', expected '"a word"'"""
    assert said(right, wrong, 0) == """result 0, counted from 0, is '"a word"', expected 'a word'"""


def test_a_merge_and_a_word_are_shown_as_the_bytes_that_a_learner_compares():
    """As a number, 2 is the place, 1 and 3 the lengths of the left part and of the pair."""
    case = Case({"words": "so low", "text": "so low, low"})
    merge, word = (
        next(c for c in catalog.find("42").checks if c.name == name).words_for(case)
        for name in ("ties", "no special tokens")
    )
    assert merge[3_001_003_000] == "(b'l', b'ow')"
    assert word[2_004_004_002] == "b' low', 2 times"
    assert (merge[-1], merge[-2], word[0]) == ("one that does not occur in the case", "missing", "0")


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
        node = next((item for item in node.body if getattr(item, "name", "") == "__call__"), None)
        if node is None:  # a plain class
            return 0
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


def test_a_text_that_does_not_end_has_a_token_too_many():
    problem = catalog.find("29")
    (check,) = (item for item in problem.checks if item.name == "end before the stop token")
    case = cases.draw(problem, check.cases, 0)[0]
    said = check.in_words(case, Difference("stopped", (2,), "-1", "7"))
    assert said == "the text must end after 2 tokens, but yours continues with token 7"
