"""The cheapest decoder: what a program reads is counted as the page says, and only the model's distribution passes."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.authoring import Given, RefusedProgramError, Repeated, Witness, trace
from grader.course import catalog, tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.tasks import grading, soundness
from tasks.cheapest_decoder import evidence
from tasks.cheapest_decoder.offer import PROMPT, WRITTEN, V

DECODER = tasks.find("cheapest_decoder")
FORGERIES = tasks.forgeries(DECODER)


def read(function, **shapes) -> int:
    """The bytes that a function reads on zeros."""
    given = [Given("case", name, shape, dtype) for name, (shape, dtype) in shapes.items()]
    repeated = Repeated(Witness().sound(trace(lambda *arrays: {"out": function(*arrays)}, *given)))
    repeated({name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()})
    return repeated.bytes_read


def test_a_product_reads_its_operands_each_time_and_elements_are_fused():
    x, w = ((3, 8), np.float32), ((8, 8), np.float32)
    once = 4 * (3 * 8 + 8 * 8)
    assert read(lambda x, w: x @ w, x=x, w=w) == once
    assert read(lambda x, w: jnp.tanh(2 * x) @ jnp.exp(w) + 1, x=x, w=w) == once
    assert read(lambda x, w: jax.lax.fori_loop(0, 5, lambda i, x: x @ w, x), x=x, w=w) == 5 * once
    by_hand = read(lambda x, w: jnp.sum(x[:, :, None] * w, axis=1), x=x, w=w)
    assert by_hand >= 4 * 3 * 8 * 8


def test_a_lookup_and_a_write_read_what_they_move():
    table, ids, row = ((100, 4), np.float32), ((3,), np.int32), ((1, 4), np.float32)
    found = read(lambda table, ids: table.at[ids].get(mode="promise_in_bounds"), table=table, ids=ids)
    assert found == 4 * 3 * 4 + 4 * 3
    written = read(lambda table, row: jax.lax.dynamic_update_slice(table, row, (7, 0)), table=table, row=row)
    assert written <= 4 * 4 + 2 * 8
    assert read(lambda table: table[10:12], table=table) == 4 * 2 * 4


RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(24, PROMPT + WRITTEN - 1, V)) * 2


def sampled(temperature: float) -> np.ndarray:
    """Tokens that are drawn from the logits, whatever the tokens before are, (N, T + 1)."""
    noise = RNG.gumbel(size=LOGITS.shape)
    drawn = np.argmax(LOGITS / temperature + noise, axis=-1)
    return np.concatenate([np.zeros((len(drawn), 1), int), drawn], axis=1)


def test_drawn_tokens_pass_and_those_of_another_temperature_fail():
    evidence._check_sampled(sampled(1.0), LOGITS, RNG)
    for temperature in (0.85, 1.2):
        with pytest.raises(RefusedProgramError, match="distribution"):
            evidence._check_sampled(sampled(temperature), LOGITS, RNG)


def test_greedy_tokens_are_compared_after_the_prompt_only():
    ids = np.concatenate([np.zeros((len(LOGITS), 1), int), LOGITS.argmax(-1)], axis=1)
    ids[:, 3] += 1
    evidence._check_greedy(ids, LOGITS)
    ids[2, PROMPT + 4] += 1
    with pytest.raises(RefusedProgramError, match="at first in token 5"):
        evidence._check_greedy(ids, LOGITS)


def test_the_stub_decodes_and_is_in_no_class(fork_server: ForkServer):
    (run,) = grading.grade(DECODER, soundness.stub(DECODER), fork_server, quick=True).runs
    assert (run.missed, DECODER.standard(run.score)) == ("", "")
    assert run.score == sum(run.pieces.values())
    assert run.pieces["reading"] == 20 * run.figures["bytes read"]
    every_weight = 4 * 530_000  # without the rows of the position embedding
    assert run.figures["bytes read"] > (2 * WRITTEN) * every_weight


@pytest.mark.parametrize(
    ("result", "said"),
    [("prompt", "it must be int32"), ("jax.numpy.zeros(128)", "it must be int32"),
     ("jax.numpy.full(128, 2048)", "a token that does not exist")],
)  # fmt: skip
def test_what_is_refused_with_a_sentence(result: str, said: str, fork_server: ForkServer):
    text = f"import jax\n\ndef decode(weights, prompt, key, greedy):\n    return {result}\n"
    submission = Submission("cheapest_decoder.py", {"cheapest_decoder": text})
    failure = grading.grade(DECODER, submission, fork_server, quick=True).failure
    assert failure
    assert said in failure.sentence()


@pytest.mark.thorough
@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_is_refused(path: Path, fork_server: ForkServer):
    submission = soundness.shipped(DECODER, path)
    said, complaint = soundness.of_forgery(submission, grading.grade(DECODER, submission, fork_server, quick=True))
    assert not complaint, said


def test_the_page_shows_the_classes_and_the_limits():
    page = catalog.page_text(DECODER)
    for standard in DECODER.standards:
        assert f"| {standard.name} | {standard.most:,.0f} |" in page
    assert f"at most {DECODER.text_bytes:,} bytes" in " ".join(page.split())
    assert f"and {evidence.BYTE} for each byte" in page


@pytest.mark.thorough
def test_it_is_sound(fork_server: ForkServer):
    assert not [complaint for _, complaint in soundness.verify(DECODER, fork_server) if complaint]
