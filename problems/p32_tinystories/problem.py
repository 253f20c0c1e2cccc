"""Problem 32: the workspace's own pieces train in the harness on the embedded stories."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

YOURS = {0: "made in your workspace, or the harness's", 1: "made elsewhere"}


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The settings of a run that are not the learner's."""
    D = sizes["D"]
    return {
        "data": f"pocket:{sizes['stories']}",
        "steps": sizes["steps"],
        "batch_size": sizes["B"],
        "context": sizes["T"],
        "d_model": D,
        "d_ff": 2 * D,
        "num_heads": 2,
        "num_layers": sizes["L"],
    }


# Losses of correct runs differ by a few hundredths with the seed, and by some tenths with the settings and with whose pieces
# they are; one that learns nothing stays at ln 2048 = 7.6.
BAR = Tolerance(rtol=0.3, atol=0.0, room=2)
BEGINNING = Tolerance(rtol=0.03, atol=0.0, room=2)
# Means of the same few hundred losses, added up in another order.
SAME_MEAN = Tolerance(rtol=1e-4, atol=1e-4)

PROBLEM = Problem(
    title="TinyStories",
    builds_on=(5, 6, 7, 8, 9, 10, 11, 13, 15, 16, 26, 29, 30),
    entries=(Entry("pieces", ()), Entry("settings", ())),
    cases={
        "short": Cases(run, {"stories": (200,), "steps": (24,), "B": (8,), "T": (16,), "D": (16,), "L": (1,)}, draws=1),
        "run": Cases(run, {"stories": (3000,), "steps": (200,), "B": (8,), "T": (64,), "D": (64,), "L": (2,)}, draws=1),
    },
    checks=(
        Check("pieces made by you", 1, "belonging", leaves="pieces", cases="short", tolerance=EXACT, words=YOURS),
        Check(
            "no model that looks ahead", 1, "assembled", leaves="looks_ahead", cases="short", tolerance=EXACT,
            words=YES,
            advice="The logits change when a later token does: in training the model then copies what it should predict, and "
            "has nothing to copy when it tells a story.",
        ),
        Check("the loss of the next token", 1, "assembled", leaves="loss_off_by", cases="short", tolerance=SAME_MEAN),
        Check("begins to learn", 1, "begun", leaves="loss_after", cases="short", compare="at_most", tolerance=BEGINNING),
        Check(
            "goes on in a new process as if it had not stopped", 2, "resumed", leaves="differing", cases="short",
            tolerance=EXACT, advice="So many losses, or numbers of the model, are others after a resume.",
        ),
        Check("validation loss", 3, "trained", leaves="validation_loss", cases="run", compare="at_most", tolerance=BAR),
        Check(
            "stories end", 1, "trained", leaves="stories", cases="run", tolerance=EXACT,
            words={0: "stop at end-of-text", 1: "go on past end-of-text", 2: "do not end within 400 tokens"},
        ),
    ),
    timeout=240.0,
    long_runs=True,
)  # fmt: skip
