"""Problem 75: multi-token prediction. A module that predicts two tokens ahead, its loss, and drafting with it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from grader.checks import YES, exact, output, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

MODEL, LOSS, WRITE = "MultiTokenGPT", "mtp_loss", "write"
PARTS = 16  # all probabilities of the model that writes are multiples of one of this many parts, and none is 0


def story(after_norm: bool, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text, for a model whose module reads the hidden state after the final norm or before it."""
    V, H = sizes["V"], sizes["G"] * sizes["R"]
    return {
        "vocab_size": V,
        "d_model": H * sizes["K"],
        "num_heads": H,
        "num_kv_heads": sizes["G"],
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "rope_base": float(sizes["base"]),
        "norm_epsilon": sizes["thousandths"] / 1000,
        "mtp_after_norm": after_norm,
        "token_ids": rng.integers(0, V, sizes["T"]).astype("int32"),
    }


def predicted(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits of both predictions. About a third of the tokens are no targets, and the tokens 1 to 3 alternate: a mask
    that is shifted by one counts other tokens."""
    import numpy as np

    T, V = sizes["T"], sizes["V"]
    is_target = rng.random(T) < 0.7
    is_target[1:4] = (True, False, True)[: T - 1]
    return {
        "logits": rng.standard_normal((T, V)).astype("float32"),
        "ahead": rng.standard_normal((T - 1, V)).astype("float32"),
        "token_ids": np.asarray(rng.integers(0, V, T), "int32"),
        "is_target": is_target,
        "weight": round(float(rng.uniform(0.1, 0.5)), 3),
    }


def answer_first(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Only the second token is a target: the token after the next is none in any row."""
    values = predicted(sizes, rng)
    values["is_target"][:] = False
    values["is_target"][1] = True
    return values


def no_targets(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """No token is a target, as in a row of padding."""
    values = predicted(sizes, rng)
    values["is_target"][:] = False
    return values


def _generator(*context: Any) -> Any:
    """A generator that depends on what is given, and on nothing else."""
    import numpy as np

    digest = hashlib.sha256(repr(context).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def likely(salt: int, V: int, text: Sequence[int]) -> Any:
    """The distribution of the model that writes after a text, (V,), in parts. Of two tokens, one has three quarters."""
    import numpy as np

    rng = _generator(salt, list(text))
    if V == 2:
        return rng.permutation([PARTS // 4, 3 * PARTS // 4])
    return 1 + rng.multinomial(PARTS - V, rng.dirichlet(np.full(V, 0.4)))


def guessed(salt: int, V: int, text: Sequence[int], seen: Sequence[Any]) -> Any:
    """The distribution that its module drafts from, (V,), in parts: nearly that of the text, if it has seen the right
    rows. Of two tokens, each has one half."""
    import numpy as np

    if V == 2:
        return np.array([PARTS // 2, PARTS // 2])
    rng, parts = _generator(salt, "module", list(seen)), likely(salt, V, text)
    for _ in range(6):
        if (fullest := int(np.argmax(parts))) != (other := int(rng.integers(V))) and parts[fullest] > 1:
            parts[fullest] -= 1
            parts[other] += 1
    return parts


def written(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A prompt, and uniform numbers that are odd multiples of 1/64.

    Every number that they are compared with is a fraction whose denominator is at most 16, so rounding decides nothing.
    """
    import numpy as np

    V, count = sizes["V"], sizes["count"]
    return {
        "prompt": repr(rng.integers(0, V, sizes["P"]).tolist()),
        "count": count,
        "V": V,
        "uniforms": repr(((2 * rng.integers(0, 32, (count, 3)) + 1) / 64).tolist()),
        "salt": np.array([rng.integers(1, 1 << 30)], "int32"),  # an array, so that only the model knows it
    }


def every_way(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A prompt whose text is written with all uniform numbers that can give another one."""
    import numpy as np

    prompt, salt = rng.integers(0, 2, sizes["P"]).tolist(), int(rng.integers(1, 1 << 30))
    return {"prompt": repr(prompt), "V": 2, "salt": np.array([salt], "int32")}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `write` gets, but for the model."""
    return {name: value for name, value in values.items() if name not in ("salt", "V")}


def text_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a text that was written, or on what it took."""
    if difference.path == "written.tokens":
        (place,) = difference.index
        return f"token {place} of the text is {difference.got}, expected {difference.expected}"
    if difference.path == "written.length":
        return f"`write` returned {difference.got} tokens, expected {difference.expected}"
    called = "run" if difference.path == "written.runs" else "ahead"
    return f"`model.{called}` was called {difference.got} times, expected {difference.expected}"


def law_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a probability of the text, or on a token of one way to write it."""
    if difference.path == "law.shares":
        first, second = difference.index
        return (
            f"the two tokens after the first are {first} and {second} with the probability {difference.got}; the model "
            f"gives them {difference.expected}"
        )
    if difference.path == "law.longest":
        return f"`write` returned {difference.got} tokens, expected {difference.expected}"
    way, _, place = difference.index
    return (
        f"with choice {way} of the uniform numbers, token {place + 1} of the text is {difference.got}, expected "
        f"{difference.expected}"
    )


def seen_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a token that a row of logits depends on, or not."""
    row, token = difference.index
    what = f"row {row} of the logits"
    if difference.path == "sight.ahead":
        what = f"row {row} of the second logits, which predicts token {row + 2},"
    return f"{what} {'depends' if difference.got in ('1', 'yes') else 'does not depend'} on token {token}"


SIZES = (
    "vocab_size", "d_model", "num_heads", "num_kv_heads", "d_ff", "num_layers", "rope_base", "norm_epsilon",
    "mtp_after_norm",
)  # fmt: skip
# Two blocks and three norms, one after the other, amplify rounding errors.
DEEP = Tolerance(rtol=1e-4, atol=1e-4)
SHAPE = {
    "T": (6,), "V": (9,), "G": (1,), "R": (2,), "K": (4,), "F": (5,), "L": (1,), "base": (100,), "thousandths": (50,),
}  # fmt: skip
OTHER = {
    "T": (5,), "V": (11,), "G": (2,), "R": (2,), "K": (2,), "F": (7,), "L": (2,), "base": (61,), "thousandths": (31,),
}  # fmt: skip
# The depth and the vocabulary of GPT-2 small, constructed and not run.
LIFE = {
    "T": (5,), "V": (50_257,), "G": (1,), "R": (1,), "K": (2,), "F": (1,), "L": (12,), "base": (90,),
    "thousandths": (40,),
}  # fmt: skip
LOSSES = ("logits", "ahead", "token_ids", "is_target", "weight")
WRITTEN: Mapping[str, Any] = {"calls": (WRITE,), "partner": "model"}

PROBLEM = Problem(
    title="Two tokens ahead",
    minutes=170,
    builds_on=(7, 38, 39, 40, 52),
    entries=(
        Entry(MODEL, ("token_ids",), construct=SIZES, returns=("logits", "ahead")),
        Entry(LOSS, LOSSES),
        Entry(WRITE, ("model", "prompt", "count", "uniforms")),
    ),
    cases={
        "cases": Cases(partial(story, False), SHAPE, draws=1),
        "after the norm": Cases(partial(story, True), OTHER, draws=1),
        "life": Cases(partial(story, False), LIFE, draws=1, covers=("layers", "vocabulary", "one")),
        "losses": Cases(predicted, {"T": (5, 7), "V": (4,)}, draws=2, covers=("coprime",)),
        "answer first": Cases(answer_first, {"T": (5,), "V": (4,)}, draws=1),
        "no targets": Cases(no_targets, {"T": (5,), "V": (4,)}, draws=1),
        "two tokens": Cases(predicted, {"T": (2,), "V": (3,)}, draws=1),
        "short": Cases(written, {"P": (1, 3), "count": (1, 2), "V": (7,)}, draws=4, show=shown),
        "written": Cases(written, {"P": (4,), "count": (41,), "V": (7,)}, draws=2, show=shown),
        "every way": Cases(every_way, {"P": (2,)}, draws=1, show=shown),
    },
    checks=(
        parameters(MODEL, points=1),
        replace(parameters(MODEL, points=1, cases="life"), name="parameters of 12 layers"),
        Check("next token", 1, "values", {"entry": MODEL, "wrt": "parameters"}, "output.logits", tolerance=DEEP),
        Check("token after the next", 3, "values", {"entry": MODEL, "wrt": "parameters"}, "output.ahead",
            tolerance=DEEP),
        Check("gradient", 2, "values", {"entry": MODEL, "wrt": "parameters"}, "gradient", tolerance=DEEP),
        output(MODEL, points=2, name="hidden state after the norm", cases="after the norm", tolerance=DEEP),
        exact(
            "no look-ahead", 2, "sight", "sight", words=YES, in_words=seen_in_words, calls=(MODEL,),
            advice="Row t of the second logits may depend on the tokens 0 to t + 1, and must depend on them.",
        ),
        Check(
            "model and module apart", 2, "apart", leaves="apart", cases="after the norm", tolerance=DEEP,
            calls=(MODEL,),
            advice="`run` returns the logits and the hidden states that `ahead` reads. `apart.ahead` is what `ahead` "
            "makes of the first rows of them and the tokens that follow.",
        ),
        *output_and_gradient(
            LOSS, wrt=("logits", "ahead"), points=(2, 1), names=("loss", "gradient of the loss"), cases="losses"
        ),
        output(LOSS, points=1, name="loss of a first token only", cases="answer first"),
        output(LOSS, points=1, name="loss without targets", cases="no targets"),
        output(LOSS, points=1, name="loss of two tokens", cases="two tokens"),
        exact("one token or two", 1, "writing", "written", cases="short", in_words=text_in_words, **WRITTEN),
        exact("text", 2, "writing", "written.tokens", cases="written", in_words=text_in_words, **WRITTEN),
        exact("tokens a run", 2, "writing", "written.runs", cases="written", in_words=text_in_words, **WRITTEN),
        exact(
            "distribution of the text", 2, "law", "law", cases="every way", in_words=law_in_words, **WRITTEN,
            advice="`law` is the distribution of two tokens, over all uniform numbers. It must be that of the main "
            "model, however bad the module is.",
        ),
    ),
    timeout=60.0,
)  # fmt: skip
