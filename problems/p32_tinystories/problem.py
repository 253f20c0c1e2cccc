"""Problem 32: the harness trains the learner's pieces on the embedded stories."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import Cases, Check, Entry, Problem, Tolerance

SHORT = {"stories": (200,), "steps": (24,), "B": (8,), "T": (16,), "D": (16,), "L": (1,)}
ORIGINS = {0: "from your workspace, or the harness's", 1: "from elsewhere"}


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The settings of a run that the learner may not change, and the seed of the stories that judge it: no worker gets
    that."""
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
        "seed": int(rng.integers(2**31)),
        "held_out": rng.integers(2**32, size=4, dtype="uint32"),
    }


# The losses of correct runs differ by a few hundredths with the seed, and by some tenths with the settings and the
# pieces. A run that learns nothing stays at ln 2048 = 7.6.
BAR = Tolerance(rtol=0.3, atol=0.0, room=2)
BEGINNING = Tolerance(rtol=0.03, atol=0.0, room=2)
# How far the mean of a few hundred losses of about 8 is from one that is computed in another order.
SAME_MEAN = Tolerance(rtol=0.0, atol=5e-4)

PROBLEM = Problem(
    title="TinyStories",
    minutes=40,
    builds_on=(5, 6, 7, 8, 9, 10, 11, 13, 15, 16, 26, 29, 30),
    entries=(Entry("pieces", ()), Entry("settings", ())),
    cases={
        "short": Cases(run, SHORT, draws=1),
        # The worker knows all of these cases.
        "known": Cases(run, SHORT, draws=1),
        "run": Cases(run, {"stories": (3000,), "steps": (200,), "B": (8,), "T": (64,), "D": (64,), "L": (2,)}, draws=1),
    },
    checks=(
        exact("pieces made by you", 1, "belonging", "pieces", cases="known", words=ORIGINS),
        exact(
            "model does not look ahead", 1, "assembled", "looks_ahead", cases="run", words=YES, traced=True, read=True,
            advice="The logits change when a later token does. In training the model then copies the token that it "
            "should predict; when it tells a story, there is no later token to copy.",
        ),
        Check(
            "loss of the next "
            "token", 1, "assembled", leaves="loss_off_by", cases="short", tolerance=SAME_MEAN, traced=True,
            read=True,
        ),
        Check(
            "loss after a short run", 1, "short_run_loss", leaves="loss_after", cases="short", compare="at_most",
            tolerance=BEGINNING, traced=True, read=True,
        ),
        exact(
            "resume in a new process, bit for "
            "bit", 2, "resumed", "differing", cases="known", saved_by="stopped", read=True,
            advice="The value is the number of losses, or of numbers in the model, that differ after the resume.",
        ),
        Check(
            "validation "
            "loss", 3, "trained", leaves="validation_loss", cases="run", compare="at_most", tolerance=BAR, traced=True,
            read=True,
        ),
        exact(
            "stories stop at end-of-text", 1, "trained", "stories", cases="run", traced=True, read=True,
            words={0: "stop at end-of-text", 1: "continue past end-of-text", 2: "do not end within 400 tokens"},
        ),
    ),
    timeout=240.0,
    long_runs=True,
    without={
        "layers": "a run of twelve layers takes minutes; the pieces are graded at such sizes in their own problems",
        "steps": "a run of 200,000 steps takes hours; the schedule is graded at such steps in problem 10",
        "coprime": "the sizes of a run are fixed on the page",
        "one": "the sizes of a run are fixed on the page",
    },
)  # fmt: skip
