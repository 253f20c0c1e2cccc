"""Problem 29: temperature, top-k, top-p, and where to read the logits."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import YES, output
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

ODDS = "sampling_distribution"


def logits(temperature: float, top_k: int, top_p: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits whose probabilities are well apart, so that rounding does not decide which token crosses p."""
    V = sizes["V"]
    spaced = rng.permutation(V) * 0.45 + rng.uniform(-0.1, 0.1, V)
    return {"logits": spaced.astype("float32"), "temperature": temperature, "top_k": top_k, "top_p": top_p}


def prompt(length: str, temperature: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, T = sizes["V"], sizes["T"]
    N = {"short": T - 3, "long": T + 4}[length]
    return {
        "vocab_size": V,
        "context": T,
        "prompt": rng.integers(0, V, N).astype("int32"),
        "num_tokens": 6,
        "temperature": temperature,
        "seed": int(rng.integers(1000)),
    }


def odds(*how: Any) -> Cases:
    return Cases(partial(logits, *how), {"V": (6, 9)}, draws=2)


# Two runs of 300 draws from the same odds differ, at each token, by less than 0.15 with all but certainty (five standard
# deviations of the difference).
DRAWN = Tolerance(rtol=0.0, atol=0.15, room=1)
MODEL = {"V": (11, 13), "T": (6, 7)}

PROBLEM = Problem(
    title="Sampling",
    builds_on=(6,),
    entries=(
        Entry(ODDS, ("logits", "temperature", "top_k", "top_p")),
        Entry(
            "generate",
            ("model", "prompt", "num_tokens", "context", "stop_token", "key", "temperature", "top_k", "top_p"),
        ),
    ),
    cases={
        "temperature": odds(0.6, 0, 1.0),
        "greedy": odds(0.0, 0, 1.0),
        "top-k": odds(1.0, 3, 1.0),
        "top-p": odds(1.0, 0, 0.6),
        "all": odds(1.7, 4, 0.7),
        "short": Cases(partial(prompt, "short", 0.0), MODEL, draws=2),
        "long": Cases(partial(prompt, "long", 0.0), MODEL, draws=1),
        "random": Cases(partial(prompt, "short", 1.5), MODEL, draws=1),
    },
    checks=(
        output(ODDS, points=1, name="temperature", cases="temperature"),
        output(ODDS, points=1, name="temperature 0 is greedy", cases="greedy"),
        output(ODDS, points=1, name="top-k", cases="top-k"),
        output(ODDS, points=1, name="top-p", cases="top-p"),
        output(ODDS, points=1, name="all together", cases="all"),
        Check("greedy text", 2, "generating", leaves="text", cases="short", tolerance=EXACT),
        Check("a prompt longer than the context", 1, "generating", leaves="text", cases="long", tolerance=EXACT),
        Check("ends before the stop token", 1, "generating", leaves="stopped", cases="short", tolerance=EXACT),
        Check("draws from those odds", 1, "drawing", leaves="frequencies", cases="random", tolerance=DRAWN),
        Check(
            "the key decides", 1, "drawing", leaves="key", cases="random", tolerance=EXACT, words=YES,
            advice="The same key must give the same text, another key another one; and every token needs a key of its own.",
        ),
    ),
    timeout=60.0,
)  # fmt: skip
