"""Problem 50: the loss of supervised fine-tuning, and that of direct preference optimization."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient
from grader.problem import EXACT, Cases, Check, Entry, Problem

SFT, LOG_P, DPO = "sft_loss", "answer_log_probability", "dpo_loss"
SIZES = {"T": (6, 9), "V": (5, 11)}


def conversation(sizes: Mapping[str, int], rng: Any, scale: float = 1.0) -> dict[str, Any]:
    """Random logits for a prompt, an answer, another prompt, another answer, and padding."""
    T, V = sizes["T"], sizes["V"]
    is_answer = rng.random(T) < 0.5
    is_answer[[1, 2, T - 2]] = True
    is_answer[[0, 3, T - 1]] = False
    return {
        "logits": (scale * rng.standard_normal((T, V))).astype("float32"),
        "token_ids": rng.integers(0, V, T).astype("int32"),
        "is_answer": is_answer,
    }


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits so large that probabilities round to 0, among them that of a token of the answer. The last token is one,
    too."""
    values = conversation(sizes, rng, scale=200.0)
    values["is_answer"][-1] = True
    values["logits"][1, values["token_ids"][2]] = -900
    return values


def no_answer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A conversation that was cut off before its first answer, perhaps after its first token."""
    import numpy as np

    values, T = conversation({**sizes, "T": max(4, sizes["T"])}, rng), sizes["T"]
    return {"logits": values["logits"][:T], "token_ids": values["token_ids"][:T], "is_answer": np.zeros(T, bool)}


def words(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A conversation of the last tokens of a large vocabulary."""
    values = conversation(sizes, rng)
    return {**values, "token_ids": sizes["V"] - 1 - values["token_ids"] % 99}


def pair(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A chosen and a rejected row, whose answers differ in length, and the logits of both models."""
    import numpy as np

    chosen, rejected, *others = (conversation(sizes, rng) for _ in range(4))
    rejected["is_answer"] = np.isin(np.arange(sizes["T"]), [rng.integers(2, 4), 4])
    return {
        "policy_logits": np.stack([chosen["logits"], rejected["logits"]]),
        "reference_logits": np.stack([other["logits"] for other in others]),
        "token_ids": np.stack([chosen["token_ids"], rejected["token_ids"]]),
        "is_answer": np.stack([chosen["is_answer"], rejected["is_answer"]]),
        "beta": int(rng.integers(2, 9)) / 10,
    }


def hopeless(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A pair whose chosen answer the policy finds so unlikely that the sigmoid of the margin rounds to 0."""
    values = pair(sizes, rng)
    values["policy_logits"][0, 1, values["token_ids"][0, 2]] = -900
    return values


DPO_OPTIONS = {"entry": DPO, "wrt": ["policy_logits", "reference_logits"]}

PROBLEM = Problem(
    title="Preference losses",
    minutes=70,
    builds_on=(7,),
    entries=(
        Entry(SFT, ("logits", "token_ids", "is_answer")),
        Entry(LOG_P, ("logits", "token_ids", "is_answer")),
        Entry(DPO, ("policy_logits", "reference_logits", "token_ids", "is_answer", "beta")),
    ),
    cases={
        "conversations": Cases(conversation, SIZES, draws=2),
        "large": Cases(large, SIZES, draws=1),
        "vocabulary": Cases(words, {"T": (7,), "V": (50_257,)}, draws=1, covers=("vocabulary", "coprime")),
        "no answer": Cases(no_answer, SIZES, draws=1),
        "one token": Cases(no_answer, {"T": (1,), "V": (5, 11)}, draws=1, covers=("one",)),
        "pairs": Cases(pair, SIZES, draws=2),
        "hopeless": Cases(hopeless, SIZES, draws=1),
    },
    checks=(
        *output_and_gradient(
            SFT, wrt=["logits"], points=(2, 1), names=("SFT loss", "gradient of the SFT loss"), cases="conversations"
        ),
        Check("no answer gives 0", 1, "values", {"entry": SFT, "wrt": ["logits"]}, "output", cases="no answer"),
        Check("a conversation of one "
            "token", 1, "values", {"entry": SFT, "wrt": ["logits"]}, "output", cases="one token"),
        Check("a large vocabulary", 1, "values", {"entry": SFT}, "output", cases="vocabulary"),
        Check("large logits in the SFT loss", 1, "values", {"entry": SFT, "wrt": ["logits"]}, cases="large"),
        *output_and_gradient(
            LOG_P,
            wrt=["logits"],
            points=(1, 1),
            names=("log-probability of the answers", "its gradient"),
            cases="conversations",
        ),
        Check("no answer has the log-probability 0", 1, "values", {"entry": LOG_P}, "output", cases="no answer"),
        Check("large logits stay finite", 1, "values", {"entry": LOG_P, "wrt": ["logits"]}, cases="large"),
        Check("DPO loss", 2, "values", DPO_OPTIONS, "output", cases="pairs"),
        Check("gradient of the policy", 1, "values", DPO_OPTIONS, "gradient.policy_logits", cases="pairs"),
        Check(
            "reference frozen", 1, "values", DPO_OPTIONS, "gradient.reference_logits", cases="pairs", tolerance=EXACT,
            advice="`gradient.reference_logits` must be 0 everywhere.",
        ),
        Check("large margins stay finite", 1, "values", DPO_OPTIONS, cases="hopeless"),
    ),
)  # fmt: skip
