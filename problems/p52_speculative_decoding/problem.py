"""Problem 52: speculative decoding, which accepts and rejects drafted tokens so that the target's distribution is
kept."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact, output
from grader.problem import Cases, Check, Entry, Problem

ACCEPTANCE, RESIDUAL, STEP = "acceptance_probabilities", "residual_distribution", "speculative_step"
SIZES = {"N": (3, 4), "V": (5, 7)}
APART = 0.01  # how far the number that draws a token is from where the result changes: far more than rounding


def distributions(rows: int, V: int, rng: Any) -> Any:
    """Random distributions, (rows, V), with no probability near 0."""
    weights = rng.uniform(0.3, 3.0, (rows, V)) ** 1.5
    return weights / weights.sum(axis=1, keepdims=True)


def drafts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Distributions of both models and drafted tokens, one of which the draft overrates and one of which it
    underrates."""
    import numpy as np

    N, V = sizes["N"], sizes["V"]
    target, draft = distributions(N + 1, V, rng), distributions(N, V, rng)
    drafted = rng.integers(0, V, N)
    drafted[0] = np.argmin(target[0] / draft[0])
    drafted[1] = np.argmax(target[1] / draft[1])
    return {
        "target": target.astype("float32"),
        "draft": draft.astype("float32"),
        "drafted": drafted.astype("int32"),
    }


def impossible(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Tokens that the target never writes, as after top-k, one that both models write surely, and one that neither
    nearly ever writes: with a large vocabulary, most are so."""
    import numpy as np

    values = drafts(sizes, rng)
    target, draft, drafted = values["target"], values["draft"], values["drafted"]
    target[0, drafted[0]] = 0
    target[0] /= target[0].sum()
    target[1] = draft[1] = np.eye(sizes["V"])[drafted[1]]
    target[2, drafted[2]], draft[2, drafted[2]] = rng.uniform(1e-8, 4e-8), rng.uniform(5e-8, 9e-8)
    return values


def one_position(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The distributions of one position."""
    target, draft = distributions(2, sizes["V"], rng).astype("float32")
    return {"target_row": target, "draft_row": draft}


def nearly_equal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Two models that differ by a thousandth in two tokens: their residual is all in one of them."""
    values = one_position(sizes, rng)
    target, (more, less) = values["target_row"], rng.permutation(sizes["V"])[:2]
    draft = target.copy()
    draft[more] -= 2**-10
    draft[less] += 2**-10
    return {**values, "draft_row": draft}


def equal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Two models that agree at one position."""
    values = one_position(sizes, rng)
    return {**values, "draft_row": values["target_row"].copy()}


def steps(accepted: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Drafts with uniform numbers that accept none, one or all of the drafted tokens.

    After a rejection, all later tokens would be accepted. The last number draws another token from the right
    distribution than from those that are wrong.
    """
    import numpy as np

    N = sizes["N"]
    count = {"none": 0, "some": 1, "all": N}[accepted]
    while True:
        values = drafts(sizes, rng)
        target, draft, drafted = values["target"].astype(float), values["draft"].astype(float), values["drafted"]
        if count < N:
            drafted[count] = np.argmin(target[count] / draft[count])
        accept = np.minimum(1, target[np.arange(N), drafted] / draft[np.arange(N), drafted])
        uniforms = accept * rng.uniform(0.1, 0.9, N)
        missing = np.maximum(target[:N] - draft, 0)
        residual = missing / missing.sum(axis=1, keepdims=True)
        if count < N:
            uniforms[count] = accept[count] + (1 - accept[count]) * rng.uniform(0.2, 0.8)
            right, wrong = residual[count], [draft[count], target[N], target[count],
                abs(target[count] - draft[count]) / 2,
                                             missing[count], residual[count + 1]]  # fmt: skip
        else:
            right, wrong = target[N], [draft[N - 1], residual[N - 1], target[N - 1]]
        again = uniforms[count] if count < N else 0.0
        last = _telling(rng.permutation(np.linspace(0.02, 0.98, 97)), again, right, wrong)
        if last.size and accept.min() > 0.1 and (count == N or accept[count] < 0.8):
            return {**values, "uniforms": np.append(uniforms, last[0]).astype("float32")}


def smallest(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Uniform numbers of 0. They reject a token that the target never writes, and draw another one.

    The target never writes token 0, and the draft overrates token 1. So the residual of both is 0.
    """
    import numpy as np

    N, V = sizes["N"], sizes["V"]
    target, draft = distributions(N + 1, V, rng), distributions(N, V, rng)
    target[0, 1] = draft[0, 1] / 2
    target[0, 0] = 0
    target[0, 2:] *= (1 - target[0, 1]) / target[0, 2:].sum()
    drafted = rng.integers(0, V, N)
    drafted[0] = 0
    return {
        "target": target.astype("float32"),
        "draft": draft.astype("float32"),
        "drafted": drafted.astype("int32"),
        "uniforms": np.zeros(N + 1, "float32"),
    }


def largest(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The largest uniform number, and a distribution whose sum rounding has left below it.

    All sums are multiples of 2 ** -22, so they are exact in every order. The first and the last token have probability
    0.
    """
    import numpy as np

    N, V = sizes["N"], sizes["V"]
    target, draft = distributions(N + 1, V, rng), distributions(N, V, rng)
    counts = rng.multinomial(2**22 - 4, distributions(1, V - 2, rng)[0])
    target[N] = np.array([0, *counts, 0]) / 2**22
    return {
        "target": target.astype("float32"),
        "draft": draft.astype("float32"),
        "drafted": np.argmax(target[:N] / draft, axis=1).astype("int32"),  # accepted whatever the uniform number
        "uniforms": np.append(rng.uniform(0.1, 0.9, N), 1 - 2**-24).astype("float32"),
    }


def _telling(numbers: Any, again: float, right: Any, wrong: Any) -> Any:
    """Those of the `numbers` that are far from all limits and draw a token from `right` that no mistake gives: `again`
    in place of the number, the first or the most likely token, one of the distributions `wrong`, of which the first two
    give two tokens.
    """
    import numpy as np

    ends = np.cumsum([right, *wrong], axis=1)
    far = np.abs(ends[:, :, None] - numbers).min(axis=(0, 1)) > APART
    token, *others = np.argmax(ends[:, :, None] > numbers, axis=1)
    taken = [*others, 0, np.argmax(right), np.argmax(ends[0] > again)]
    return numbers[far & (others[0] != others[1]) & np.all([token != other for other in taken], axis=0)]


ARGUMENTS = ("target", "draft", "drafted")

PROBLEM = Problem(
    title="Speculative decoding",
    minutes=80,
    builds_on=(29, 30),
    entries=(
        Entry(ACCEPTANCE, ARGUMENTS),
        Entry(RESIDUAL, ("target_row", "draft_row")),
        Entry(STEP, (*ARGUMENTS, "uniforms"), returns=("tokens", "count")),
    ),
    cases={
        "drafts": Cases(drafts, SIZES, draws=2, covers=("coprime",)),
        "impossible": Cases(impossible, SIZES, draws=1),
        "one position": Cases(one_position, {"V": (5, 7)}, draws=2),
        "equal": Cases(equal, {"V": (5,)}, draws=1),
        "nearly equal": Cases(nearly_equal, {"V": (5,)}, draws=1),  # one program for both
        "none": Cases(partial(steps, "none"), SIZES, draws=2),
        "some": Cases(partial(steps, "some"), SIZES, draws=2),
        "all": Cases(partial(steps, "all"), SIZES, draws=2),
        "smallest": Cases(smallest, SIZES, draws=1),
        "largest": Cases(largest, {"N": (1,), "V": (5, 7)}, draws=1, covers=("one",)),
    },
    checks=(
        output(ACCEPTANCE, points=2, name="acceptance probabilities", cases="drafts"),
        output(ACCEPTANCE, points=1, name="impossible, certain and improbable tokens", cases="impossible"),
        output(RESIDUAL, points=2, name="residual distribution", cases="one position"),
        output(RESIDUAL, points=1, name="residual of equal distributions", cases="equal"),
        output(RESIDUAL, points=1, name="residual of nearly equal distributions", cases="nearly equal"),
        Check(
            "first token has the target's distribution", 1, "first_token", leaves="law", cases="one position",
            advice="`law` is the distribution of the first emitted token, over all tokens that the draft could "
                "propose.",
        ),
        exact("first token rejected", 2, "values", "output", options={"entry": STEP}, cases="none"),
        exact("some tokens accepted", 2, "values", "output", options={"entry": STEP}, cases="some"),
        exact("all tokens accepted", 2, "values", "output", options={"entry": STEP}, cases="all"),
        exact("uniform numbers of 0", 1, "values", "output", options={"entry": STEP}, cases="smallest"),
        exact("largest uniform number", 1, "values", "output", options={"entry": STEP}, cases="largest"),
    ),
    timeout=60.0,
)  # fmt: skip
