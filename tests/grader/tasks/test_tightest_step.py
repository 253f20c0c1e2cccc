"""The tightest step: bytes are counted as the page says, and a step must be right, in its place and shared."""

import math
from pathlib import Path

import pytest

from grader.course import catalog, tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.tasks import grading, soundness
from tasks.tightest_step import evidence, offer

TIGHTEST = tasks.find("tightest_step")
FORGERIES = tasks.forgeries(TIGHTEST)
STUB = catalog.stub_text(TIGHTEST)
NUMBERS = sum(map(math.prod, offer.shapes().values()))
REPLICATED = """loss, new = run(parameters, tokens)
    everywhere = jax.NamedSharding(mesh, PartitionSpec())
    return loss, {name: jax.lax.with_sharding_constraint(x, everywhere) for name, x in new.items()}"""


def graded(fork_server: ForkServer, old: str = "", new: str = "") -> grading.Score:
    """The quick score of the stub with a change."""
    assert not old or STUB.count(old) == 1
    text = STUB.replace(old, new) if old else STUB
    return grading.grade(TIGHTEST, Submission("tightest_step.py", {"tightest_step": text}), fork_server, quick=True)


def test_the_stub_sends_all_parameters_three_times_and_their_gradients_once(fork_server: ForkServer):
    """The table is gathered once more, for the lookup, and its gradient is scattered once more."""
    (run,) = graded(fork_server).runs
    moved = 3 * NUMBERS + 2 * offer.V * offer.D
    assert run.score == 7 * 4 * moved + 2 * 7 * 4, "and the loss, a sum that everyone gets"
    assert (run.missed, TIGHTEST.standard(run.score)) == ("", "")
    assert run.score == sum(run.pieces.values())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return run(parameters, tokens)", "return run(parameters, tokens)[0], [1]", "must be a dict"),
        ("return run(parameters, tokens)", REPLICATED, "in another way than split along the first axis"),
        pytest.param(
            "return run(parameters, tokens)",
            "return 1.0, run(parameters, tokens)[1]",
            "a scalar jax.Array",
            marks=pytest.mark.thorough,
        ),
        pytest.param("RATE = 1.0", "RATE = 1.1", "of its length", marks=pytest.mark.thorough),
        pytest.param('return jax.lax.psum(loss, "data"),', "return loss,", "its loss is", marks=pytest.mark.thorough),
        ("(PartitionSpec(), split)", "(PartitionSpec(), PartitionSpec())", "such as `blocks.0.down`"),
    ],
)
def test_what_is_refused_with_a_sentence(old: str, new: str, said: str, fork_server: ForkServer):
    failure = graded(fork_server, old, new).failure
    assert failure
    assert said in failure.sentence()


def test_the_whole_model_on_a_device_is_too_much(fork_server: ForkServer):
    failure = graded(fork_server, "@jax.checkpoint\ndef block", "def block").failure
    assert failure
    assert "bytes at its peak" in failure.sentence()


@pytest.mark.thorough  # and in `grade verify tightest_step`
@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_is_refused(path: Path, fork_server: ForkServer):
    submission = soundness.shipped(TIGHTEST, path)
    said, complaint = soundness.of_forgery(submission, grading.grade(TIGHTEST, submission, fork_server, quick=True))
    assert not complaint, said


def test_the_page_shows_the_classes_and_the_limits():
    page = " ".join(catalog.page_text(TIGHTEST).split())
    for standard in TIGHTEST.standards:
        assert f"| {standard.name} | {standard.most:,.0f} |" in page
    assert f"At most {evidence.WORK:,} scalar operations" in page
    assert f"At most {evidence.PEAK:,} bytes" in page
    assert f"at most {evidence.SAME:.0%} of its length" in page
    assert f"differ by {evidence.SAME_LOSS:.1%}" in page
    assert f"{NUMBERS:,} numbers in all" in page


@pytest.mark.thorough
def test_it_is_sound(fork_server: ForkServer):
    assert not [complaint for _, complaint in soundness.verify(TIGHTEST, fork_server) if complaint]
