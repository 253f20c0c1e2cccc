"""The smallest model: a file is opened where nothing else is known of the model, and its loss is compared."""

from pathlib import Path

import pytest

from grader.course import catalog, tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.tasks import grading, soundness
from tasks.smallest_model import evidence

SMALLEST = tasks.find("smallest_model")
FORGERIES = tasks.forgeries(SMALLEST)
ZEROS = """
from jax import numpy as jnp

def compress(weights, stories):
    return bytes(len(weights["ln_f.bias"]))

def restore(file):
    return {"bias": jnp.frombuffer(file, jnp.uint8)}

def logits(parameters, tokens):
    return jnp.zeros((*tokens.shape, 2048)) + parameters["bias"][0]
"""


def graded(fork_server: ForkServer, text: str) -> grading.Score:
    return grading.grade(SMALLEST, Submission("smallest_model.py", {"smallest_model": text}), fork_server, quick=True)


def test_the_weights_in_16_bits_lose_nothing(fork_server: ForkServer):
    (run,) = grading.grade(SMALLEST, soundness.stub(SMALLEST), fork_server, quick=True).runs
    assert (run.score, run.missed) == (2 * 550_752, "")
    assert run.figures["above the trained model"] == pytest.approx(0, abs=1e-4)
    assert 0.3 < run.figures["nats per token"] < 0.5


def test_a_small_file_that_knows_nothing_misses_the_loss(fork_server: ForkServer):
    """Equal logits have a loss of log 2048 = 7.62 nats."""
    score = graded(fork_server, ZEROS)
    (run,) = score.runs
    assert (run.score, score.value, run.figures["nats per token"]) == (96, None, 7.6246)
    assert "above the trained model's, and the task allows 0.03" in score.missed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('bytes(len(weights["ln_f.bias"]))', '"text"', "it must return bytes"),
        ("(*tokens.shape, 2048)", "(*tokens.shape, 5)", "`logits` returned shape"),
        ('{"bias": jnp.frombuffer(file, jnp.uint8)}', '"text"', "returned a str, not an array"),
        ("[0]", "[0] / 0", "not finite"),
    ],
)
def test_what_is_refused_with_a_sentence(old: str, new: str, said: str, fork_server: ForkServer):
    assert ZEROS.count(old) == 1
    failure = graded(fork_server, ZEROS.replace(old, new)).failure
    assert failure
    assert said in failure.sentence()


@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_is_refused(path: Path, fork_server: ForkServer):
    submission = soundness.shipped(SMALLEST, path)
    said, complaint = soundness.of_forgery(submission, grading.grade(SMALLEST, submission, fork_server, quick=True))
    assert not complaint, said


def test_the_page_shows_the_classes_and_the_limits():
    page = catalog.page_text(SMALLEST)
    for standard in SMALLEST.standards:
        assert f"| {standard.name} | {standard.most:,.0f} |" in page
    assert f"**{evidence.BAR}** nats" in page
    assert f"at most {SMALLEST.text_bytes:,} bytes" in page


@pytest.mark.thorough
def test_it_is_sound(fork_server: ForkServer):
    assert not [complaint for _, complaint in soundness.verify(SMALLEST, fork_server) if complaint]
