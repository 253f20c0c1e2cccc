"""Problem 29: temperature, top-k and top-p, and a sampling loop."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from commandline.text import counted
from grader.checks import YES, exact, output
from grader.problem import Case, Cases, Difference, Entry, Problem, Tolerance

DISTRIBUTION = "sampling_distribution"


def logits(temperature: float, top_k: int, top_p: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits whose probabilities are far apart, so that rounding does not decide which token crosses p."""
    V = sizes["V"]
    # Beyond 60, all are about as unlikely: with more steps, the range of a float32 would end.
    likely = max(V - 60, 0)
    spaced = (rng.permutation(V).clip(likely) - likely) * 0.45 + rng.uniform(-0.1, 0.1, V)
    return {"logits": spaced.astype("float32"), "temperature": temperature, "top_k": top_k, "top_p": top_p}


def sure(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits so large that their exponentials overflow, one of which is so far ahead that in float32 its probability is
    1."""
    values = logits(0.1, sizes["V"], 1.0, sizes, rng)
    large = 10 + values["logits"] / 3
    large[large.argmax()] += 1.8
    return {**values, "logits": large}


def prompt(length: str, temperature: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Arguments of `generate`, with a prompt shorter or longer than the context."""
    V, T = sizes["V"], sizes["T"]
    N = {"short": T - 3, "long": T + 4}[length]
    return {
        "vocab_size": V,
        "context": T,
        "prompt": rng.integers(0, V, N).astype("int32"),
        "num_tokens": int(rng.integers(5, 8)),
        "temperature": temperature,
        "seed": int(rng.integers(1000)),
        "ranks": rng.permutation(V).astype("int32"),
    }


def in_words(_: Case, wrong: Difference) -> str:
    """Words for what a draw or a text depends on."""
    if wrong.path.endswith("depends_on_key"):
        return "at temperature 0, another key gives another text; the most likely token must be certain"
    if wrong.path == "frequencies.ended_early":
        return "a text has fewer than `num_tokens` tokens, although its stop token is not in the vocabulary"
    if wrong.path == "frequencies.draws":
        return "not judged yet: frequencies say nothing until the check “use of the random key” passes"
    if wrong.path.startswith("frequencies.outside_"):
        return f"tokens are drawn that `{wrong.path.removeprefix('frequencies.outside_')}` excludes"
    if wrong.index and "-1" in (wrong.expected, wrong.got):  # texts are compared at one length
        (end,) = wrong.index
        if wrong.expected == "-1":
            return f"the text must end after {counted(end, 'token')}, but yours continues with token {wrong.got}"
        return f"your text ends after {counted(end, 'token')}, and token {wrong.expected} must follow"
    return ""


def smallest_filters(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The smallest values of top_k, and of top_p in percent, or others."""
    return logits(1.0, sizes.get("k", 0), sizes.get("percent", 100) / 100, sizes, rng)


def filtered(*how: Any, V: tuple[int, ...] = (6, 9), covers: tuple[str, ...] = ()) -> Cases:
    """Cases of `sampling_distribution` with this temperature, top_k and top_p."""
    return Cases(partial(logits, *how), {"V": V}, draws=2, covers=covers)


# Logits of up to 150 lose 1e-5 to rounding, and so do their exponentials. Probabilities go down to 1e-13: float64 adds
# them to 1.
TINY = Tolerance(rtol=5e-4, atol=1e-16)
# The frequencies of a token in two runs of 600 draws differ by less than 0.15, except with negligible probability: it
# is five standard deviations of the difference. At temperature 0.6 the most likely token has a probability near 0.5, so
# that drawing from a flatter distribution shows.
DRAWN = Tolerance(rtol=0.0, atol=0.15, room=1)
MODEL = {"V": (11, 13), "T": (7, 6)}

PROBLEM = Problem(
    title="Sampling",
    minutes=110,
    builds_on=(6,),
    entries=(
        Entry(DISTRIBUTION, ("logits", "temperature", "top_k", "top_p")),
        Entry(
            "generate",
            ("model", "prompt", "num_tokens", "context", "stop_token", "key", "temperature", "top_k", "top_p"),
        ),
    ),
    cases={
        "temperature": filtered(0.6, 0, 1.0),
        "greedy": filtered(0.0, 0, 1.0),
        "low": Cases(sure, {"V": (6, 7)}, draws=2),
        "top-k": Cases(smallest_filters, {"V": (9,), "k": (3, 1)}, draws=2, covers=("one",)),
        "top-p": Cases(smallest_filters, {"V": (9,), "percent": (60, 1)}, draws=2),
        "all": filtered(1.7, 4, 0.7, V=(6, 50_257), covers=("vocabulary",)),
        "short": Cases(partial(prompt, "short", 0.0), MODEL, draws=2, covers=("coprime",)),
        "long": Cases(partial(prompt, "long", 0.0), MODEL, draws=1),
        "random": Cases(partial(prompt, "short", 0.6), MODEL, draws=1),
    },
    checks=(
        output(DISTRIBUTION, points=1, name="temperature", cases="temperature"),
        output(DISTRIBUTION, points=1, name="temperature 0 is greedy", cases="greedy"),
        output(DISTRIBUTION, points=1, name="low temperature, all tokens kept", cases="low", tolerance=TINY),
        output(DISTRIBUTION, points=1, name="top-k", cases="top-k"),
        output(DISTRIBUTION, points=1, name="top-p", cases="top-p"),
        output(DISTRIBUTION, points=1, name="temperature, top-k and top-p", cases="all"),
        exact("greedy text", 2, "generating", "text", cases="short", in_words=in_words),
        exact("prompt longer than the context", 1, "generating", "text", cases="long", in_words=in_words),
        exact("end before the stop token", 1, "generating", "stopped", cases="short", in_words=in_words),
        # Before the frequencies: which tokens a misused key draws depends on the key, but that it is misused does not.
        exact(
            "use of the random "
            "key", 1, "drawing", "key", saved_by="first_drawing", read=True, cases="random", words=YES,
            advice="The same key must give the same text and another key another text. Every token needs a key of its "
                "own.",
        ),
        exact(
            "frequencies of drawn "
            "tokens", 1, "drawing", "frequencies", saved_by="first_drawing", read=True, cases="random",
            tolerance=DRAWN, in_words=in_words,
        ),
    ),
    timeout=60.0,
)  # fmt: skip
