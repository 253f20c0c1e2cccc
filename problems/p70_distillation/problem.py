"""Problem 70: four losses that teach a small model what a large one knows."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient
from grader.problem import EXACT, Cases, Check, Entry, Problem

TOKEN, TARGETS, TOP_K, SEQUENCE = "token_loss", "top_k_targets", "top_k_loss", "sequence_loss"
ON_POLICY = "on_policy_loss"
SIZES = {"T": (6, 9), "V": (7, 11)}


def text(sizes: Mapping[str, int], rng: Any, scale: float = 1.0) -> dict[str, Any]:
    """The logits of both models for a prompt, an answer, another prompt, another answer, and padding if T is even."""
    T, V = sizes["T"], sizes["V"]
    is_target = rng.random(T) < 0.5
    is_target[[1, 2, T - 2]] = True
    is_target[[0, 3]] = False
    is_target[T - 1] = T % 2 == 1
    return {
        "student_logits": (scale * rng.standard_normal((T, V))).astype("float32"),
        "teacher_logits": (scale * rng.standard_normal((T, V)) * 1.5).astype("float32"),
        "token_ids": rng.integers(0, V, T).astype("int32"),
        "is_target": is_target,
        "temperature": 2.5,
        "soft_weight": round(rng.uniform(0.55, 0.85), 3),
    }


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits so large that probabilities round to 0, and a low temperature. The last token is a target, too."""
    values = {**text(sizes, rng, scale=100.0), "temperature": 0.5}
    values["is_target"][-1] = True
    values["student_logits"][1, values["token_ids"][2]] = -900
    values["teacher_logits"][1, values["token_ids"][2]] = 900
    return values


def no_target(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text that was cut off before its first answer."""
    import numpy as np

    return {**text(sizes, rng), "is_target": np.zeros(sizes["T"], bool)}


def teacher(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The logits of the teacher, and how many of its tokens to keep."""
    T, V = sizes["T"], sizes["V"]
    return {
        "teacher_logits": (2 * rng.standard_normal((T, V))).astype("float32"),
        "k": sizes["k"],
        "temperature": 1.5,
    }


def ties(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Tokens with equal logits, in one row all of them."""
    values = teacher(sizes, rng)
    values["teacher_logits"] = rng.integers(0, 3, (sizes["T"], sizes["V"])).astype("float32")
    values["teacher_logits"][1] = 1
    return values


def kept(sizes: Mapping[str, int], rng: Any, temperature: float = 1.5) -> dict[str, Any]:
    """What is kept of a teacher, and the logits of a student. More than a tenth of the teacher's probability is not
    kept."""
    import numpy as np

    T, V, k = sizes["T"], sizes["V"], sizes["k"]
    odds = np.sort(rng.uniform(0.2, 1.0, (T, V)) ** 3)[:, ::-1]
    odds /= odds.sum(axis=1, keepdims=True)
    ids = np.stack([rng.permutation(V)[:k] for _ in range(T)])
    return {
        "student_logits": (2 * rng.standard_normal((T, V))).astype("float32"),
        "ids": ids.astype("int32"),
        "log_p": np.log(odds[:, :k]).astype("float32"),
        "temperature": temperature,
    }


def sure_student(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A student that puts nearly all of its probability on kept tokens: what it leaves for the others rounds to 0."""
    import numpy as np

    values = kept(sizes, rng)
    np.put_along_axis(values["student_logits"], values["ids"][:, :1], 70.0, axis=1)
    return values


def sure_teacher(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A teacher whose kept tokens have all of the probability: one of them has it, and those of the others round to
    0."""
    import numpy as np

    values, k = kept(sizes, rng), sizes["k"]
    values["log_p"] = np.stack([rng.permutation([0.0, *(-60.0 - i for i in range(k - 1))]) for _ in range(sizes["T"])])
    values["log_p"] = values["log_p"].astype("float32")
    return values


def rounded_teacher(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A teacher whose kept tokens have all of the probability, and in float32 a little more."""
    import numpy as np

    values = kept(sizes, rng)
    odds = np.exp(values["log_p"].astype(float))
    values["log_p"] = np.log(odds / odds.sum(axis=1, keepdims=True)).astype("float32")
    for _ in range(8):  # each to the next larger number
        values["log_p"] = np.nextafter(values["log_p"], np.float32(1))
    return values


def written(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Texts that the teacher wrote, of very different lengths, after prompts of different lengths."""
    import numpy as np

    N, T, V = sizes["N"], sizes["T"], sizes["V"]
    is_written = np.zeros((N, T), bool)
    for row in range(N):
        start = 1 + row % 3
        is_written[row, start : start + int(rng.integers(1, T - start))] = True
    is_written[0, 2:] = True  # up to the last token
    is_written[1] = np.arange(T) == 2  # a single token
    return {
        "student_logits": rng.standard_normal((N, T, V)).astype("float32"),
        "token_ids": rng.integers(0, V, (N, T)).astype("int32"),
        "is_written": is_written,
    }


def one_empty(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One of the texts is empty."""
    values = written(sizes, rng)
    values["is_written"][1] = False
    return values


def own(sizes: Mapping[str, int], rng: Any, scale: float = 1.0) -> dict[str, Any]:
    """Texts that the student wrote after prompts, and what both models think of each token."""
    values = written(sizes, rng)
    logits = scale * rng.standard_normal((2, *values["student_logits"].shape))
    return {
        "student_logits": (1.5 * logits[0]).astype("float32"),
        "teacher_logits": (1.5 * logits[1]).astype("float32"),
        "is_written": values["is_written"],
    }


def own_large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits so large that probabilities round to 0. The teacher is sure of another token than the student."""
    values = own(sizes, rng, scale=100.0)
    values["student_logits"][0, 1, 0], values["teacher_logits"][0, 1, 0] = 900, -900
    return values


def own_nothing(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """No text has a written token."""
    values = own(sizes, rng)
    values["is_written"][:] = False
    return values


TOKEN_OPTIONS = {"entry": TOKEN, "wrt": ["student_logits", "teacher_logits"]}
TOP_K_OPTIONS = {"entry": TOP_K, "wrt": ["student_logits", "log_p"]}
ON_POLICY_OPTIONS = {"entry": ON_POLICY, "wrt": ["student_logits", "teacher_logits"]}
FEW = {**SIZES, "k": (3, 2)}
OWN = {"N": (4,), "T": (7,), "V": (5,)}

PROBLEM = Problem(
    title="Distillation",
    minutes=135,
    builds_on=(7, 29, 50),
    entries=(
        Entry(
            TOKEN,
            ("student_logits", "teacher_logits", "token_ids", "is_target", "temperature", "soft_weight"),
        ),
        Entry(TARGETS, ("teacher_logits", "k", "temperature"), returns=("ids", "log_p")),
        Entry(TOP_K, ("student_logits", "ids", "log_p", "temperature")),
        Entry(SEQUENCE, ("student_logits", "token_ids", "is_written")),
        Entry(ON_POLICY, ("student_logits", "teacher_logits", "is_written")),
    ),
    cases={
        "texts": Cases(text, SIZES, draws=2, covers=("coprime",)),
        "large": Cases(large, SIZES, draws=1),
        "no target": Cases(no_target, SIZES, draws=1),
        "teachers": Cases(teacher, FEW, draws=1),
        "ties": Cases(ties, FEW, draws=1),
        "kept": Cases(kept, FEW, draws=2),
        "sure students": Cases(sure_student, {**SIZES, "k": (1,)}, draws=1),
        "sure teachers": Cases(sure_teacher, FEW, draws=1),
        "rounded teachers": Cases(rounded_teacher, FEW, draws=1),
        "all kept": Cases(kept, {"T": (1,), "V": (4,), "k": (4,)}, draws=1, covers=("one",)),
        "written": Cases(written, {"N": (4,), **SIZES}, draws=1),
        "one empty": Cases(one_empty, {"N": (4,), **SIZES}, draws=1),
        "own texts": Cases(own, OWN, draws=1),
        "own large": Cases(own_large, OWN, draws=1),
        "own nothing": Cases(own_nothing, OWN, draws=1),
    },
    checks=(
        Check("token loss", 2, "values", TOKEN_OPTIONS, "output", "texts"),
        Check("gradient of the student", 1, "values", TOKEN_OPTIONS, "gradient.student_logits", "texts"),
        Check(
            "teacher frozen", 1, "values", TOKEN_OPTIONS, "gradient.teacher_logits", "texts", tolerance=EXACT,
            advice="`gradient.teacher_logits` must be 0 everywhere.",
        ),
        Check("no target gives 0", 1, "values", TOKEN_OPTIONS, "output", "no target"),
        Check("large logits stay finite", 1, "values", TOKEN_OPTIONS, cases="large"),
        output(TARGETS, points=2, name="top-k targets", cases="teachers"),
        output(TARGETS, points=1, name="ties", cases="ties"),
        Check("top-k loss", 2, "values", TOP_K_OPTIONS, "output", "kept"),
        Check("gradient of the top-k loss", 1, "values", TOP_K_OPTIONS, "gradient", "kept"),
        Check("a sure student", 1, "values", TOP_K_OPTIONS, cases="sure students"),
        Check("a sure teacher", 1, "values", TOP_K_OPTIONS, cases="sure teachers"),
        Check("kept probabilities that round to more than 1", 1, "values", TOP_K_OPTIONS, cases="rounded teachers"),
        Check("every token kept", 1, "values", TOP_K_OPTIONS, cases="all kept"),
        *output_and_gradient(
            SEQUENCE, wrt=["student_logits"], points=(1, 1), names=("sequence loss", "gradient of the sequence loss"),
            cases="written",
        ),
        output(SEQUENCE, points=1, name="an empty text counts as a text", cases="one empty"),
        Check("on-policy loss", 2, "values", ON_POLICY_OPTIONS, "output", "own texts"),
        Check("gradient of the on-policy loss", 1, "values", ON_POLICY_OPTIONS, "gradient", "own texts"),
        Check("a teacher of another opinion", 1, "values", ON_POLICY_OPTIONS, cases="own large"),
        Check("nothing written gives 0", 1, "values", ON_POLICY_OPTIONS, cases="own nothing"),
    ),
)  # fmt: skip
