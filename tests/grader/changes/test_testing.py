"""A learner's test runs on programs that it cannot see, and counts only if it catches the fault and others like it."""

from pathlib import Path

import pytest

from grader.changes import drawing, soundness, testing
from grader.changes.drawing import Proofs
from grader.course import catalog, tasks
from grader.isolation.sandbox import ForkServer

MODEL, TRAINER = (tasks.find(name) for name in ("review_model", "review_trainer"))
ATTENTION = catalog.find("02")
MEAN = """
import numpy as np

def test(pieces):
    zeros, v = np.zeros((2, 4), np.float32), np.array([[0.0] * 4, [2.0] * 4], np.float32)
    out = pieces.causal_attention(zeros, zeros, v)
    out[0] += 0  # an array of one's own
    assert np.allclose(out, [[0] * 4, [1] * 4], atol=1e-4), out
"""
ASKS = """
def test(pieces):
    for name in ("__code__", "_of", "lower", "__globals__"):
        try:
            found = getattr(pieces.{piece}, name)
        except (AttributeError, RuntimeError):
            continue
        assert name == "_of", found
    try:
        pieces.{piece}()
    except RuntimeError as error:
        assert str(error) == "the piece raised an error"
    try:
        pieces.catalog
        pieces.os()
    except RuntimeError:
        return
    raise AssertionError("it reached what is no piece")
"""


def tried(text: str, program: str, fork_server: ForkServer, number: str = "02") -> testing.Trial:
    problem = catalog.find(number)
    return testing.tried(problem, testing.of_text(problem, "test_1.py", text), program, fork_server)


def hunt(number: str, name: str) -> str:
    found = drawing.hunts_of(catalog.find(number))
    return next(each for each in found if each.misconception.name == name).broken


def test_a_test_passes_on_a_right_program_and_fails_on_a_fault(fork_server: ForkServer):
    assert tried(MEAN, catalog.solution_text(ATTENTION), fork_server).failure is None
    trial = tried(MEAN, hunt("02", "causal mask missing"), fork_server)
    assert trial.failure
    assert (trial.failure.type, trial.failure.line_in("test_1.py")) == ("AssertionError", 8)
    assert not trial.ended


def test_a_test_asks_for_nothing_but_what_pieces_return(fork_server: ForkServer):
    trial = tried(ASKS.format(piece="causal_attention"), catalog.solution_text(ATTENTION), fork_server)
    assert trial.failure is None, trial.failure
    assert trial.of_piece


def test_a_model_stays_where_it_is_and_gets_other_parameters(fork_server: ForkServer):
    text = """
import numpy as np

def test(pieces):
    layer = pieces.CausalMHA(4, 2, rngs=1)
    layer.set_parameters({name: np.ones(value.shape, np.float32) for name, value in layer.parameters().items()})
    assert all((value == 1).all() for value in layer.parameters().values())
    assert np.allclose(layer(np.zeros((3, 4), np.float32)), 5)
    try:
        layer.set_parameters({"q_proj.kernel": np.ones(3)})
    except RuntimeError:
        return
    raise AssertionError("another shape was taken")
"""
    assert tried(text, catalog.solution_text(catalog.find("03")), fork_server, "03").failure is None


@pytest.mark.parametrize(
    ("text", "said"),
    [("def test(pieces:\n", "SyntaxError"), ("def other(pieces): pass\n", "`test` is not defined"),
     ("import p02_causal_attention as p\n\ndef test(pieces):\n    assert p.causal_attention\n", "AttributeError"),
     ("import p03_causal_mha\n", "p03_causal_mha")],
)  # fmt: skip
def test_a_test_that_cannot_run_is_told_why(text: str, said: str, fork_server: ForkServer):
    trial = tried(text, catalog.solution_text(ATTENTION), fork_server)
    assert trial.failure
    assert said in trial.failure.sentence()


@pytest.mark.thorough
@pytest.mark.parametrize("path", [*tasks.forgeries(MODEL), *tasks.forgeries(TRAINER)], ids=lambda path: path.stem)
def test_a_forgery_is_refused(path: Path, fork_server: ForkServer):
    with Proofs(fork_server) as proofs:
        said, complaint = soundness.of_forgery(path.name, catalog.text_of(path), proofs)
    assert not complaint, said


@pytest.mark.thorough
@pytest.mark.parametrize("task", [MODEL, TRAINER], ids=lambda task: task.label)
def test_the_task_is_sound(task, fork_server: ForkServer):
    assert [complaint for _, complaint in soundness.verify(task, fork_server) if complaint] == []
