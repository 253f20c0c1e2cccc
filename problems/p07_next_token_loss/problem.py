"""Problem 07: next-token loss, the loss of a language model on one story."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient
from grader.problem import Cases, Check, Entry, Problem

LOSS = "next_token_loss"
SIZES = {"T": (4, 6, 9), "V": (5, 11)}


def story(
    sizes: Mapping[str, int], rng: Any, real: int, *, scale: float = 1.0, pad_id: int | None = None
) -> dict[str, Any]:
    """Random logits and a story of `real` tokens, right-padded with a token that is neither the first nor the last by
    default.

    Token 0 and the last token of the vocabulary are targets, so that no program can take them for padding.
    """
    T, V = sizes["T"], sizes["V"]
    pad_id = int(rng.integers(1, V - 1)) if pad_id is None else pad_id
    token_ids = rng.integers(0, V - 1, T).astype("int32")
    token_ids[token_ids >= pad_id] += 1
    token_ids[1:3] = rng.permutation([0, V - 1])[: T - 1]
    token_ids[real:] = pad_id
    logits = (scale * rng.standard_normal((T, V))).astype("float32")
    return {"logits": logits, "token_ids": token_ids, "pad_id": pad_id}


def plain(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story without padding."""
    return story(sizes, rng, real=sizes["T"])


def padded(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story in which about half of the tokens are padding."""
    return story(sizes, rng, real=sizes["T"] // 2 + 1)


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits so large that probabilities round to 0, among them that of the first target."""
    values = story(sizes, rng, real=sizes["T"], scale=200.0)
    values["logits"][0, values["token_ids"][1]] = -900
    return values


def empty(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of nothing but padding, token 0, or of a single token, which has no target."""
    T, V = sizes["T"], sizes["V"]
    return story(sizes, rng, real=0, pad_id=0) if T > 1 else story(sizes, rng, real=1, pad_id=V - 1)


def vocabulary(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story without padding in a large vocabulary."""
    return story(sizes, rng, real=sizes["T"])


PROBLEM = Problem(
    title="Next-token loss",
    minutes=30,
    entries=(Entry(LOSS, ("logits", "token_ids", "pad_id")),),
    cases={
        "plain": Cases(plain, SIZES),
        "padded": Cases(padded, {"T": (4, 7), "V": (5,)}, draws=2),
        "large": Cases(large, SIZES, draws=1),
        "empty": Cases(empty, {"T": (5, 1), "V": (6,)}, draws=2, covers=("one",)),
        "vocabulary": Cases(vocabulary, {"T": (5, 7), "V": (50_257,)}, draws=1, covers=("vocabulary", "coprime")),
    },
    checks=(
        *output_and_gradient(LOSS, wrt=["logits"], points=(1, 1), names=("shifted by one", "gradient"), cases="plain"),
        output(LOSS, points=1, name="padding does not count", cases="padded"),
        output(LOSS, points=1, name="large logits stay finite", cases="large"),
        Check("nothing to predict gives 0", 1, "values", {"entry": LOSS, "wrt": ["logits"]}, cases="empty"),
        output(LOSS, points=1, name="a large vocabulary", cases="vocabulary"),
    ),
)
