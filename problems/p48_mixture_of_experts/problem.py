"""Problem 48: a mixture of experts, in which each token uses a few of many feed-forward networks."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

MOE = "MixtureOfExperts"
VALUES = {"entry": MOE, "wrt": "parameters"}


def tokens(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations, (T, D), which have a direction in common, so that some experts are chosen more often than others."""
    T, D = sizes["T"], sizes["D"]
    x = rng.standard_normal((T, D)) + 0.7 * rng.standard_normal(D)
    return {
        "d_model": D,
        "d_ff": sizes["F"],
        "num_experts": sizes["E"],
        "top_k": sizes["k"],
        "capacity": sizes["C"],
        "x": x.astype("float32"),
    }


def full(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """More choices than places. One token is 0, so its probabilities are equal."""
    values = tokens(sizes, rng)
    values["x"][1] = 0
    return values


def smallest(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """More experts than tokens. The first two tokens choose the same one, because they have the same direction."""
    values = tokens(sizes, rng)
    values["x"][1] = 2 * values["x"][0]
    return values


def long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A long story in which all experts are chosen. Some tokens have scores whose exponential is infinite."""
    values = tokens(sizes, rng)
    values["x"][::5] *= 1000
    return values


# The experts' part is two thirds of the reference's work. All experts for all tokens take more than four times its
# work, and more than five times with gradients, where correct programs differ by a tenth.
WORK = Tolerance(rtol=0.6, atol=0.0, room=3)
# The reference's largest array, the hidden one of all places, has E · C · F numbers. Arrays over all pairs of tokens
# and experts have nearly six times as many or more.
ARRAYS = Tolerance(rtol=1.5, atol=0.0, room=3)


def work(case: Case, difference: Difference) -> str:
    return f"the forward pass executes {difference.got} scalar operations; {difference.expected} are allowed"


def work_of_both(case: Case, difference: Difference) -> str:
    return f"the program with gradients executes {difference.got} scalar operations; {difference.expected} are allowed"


def array(case: Case, difference: Difference) -> str:
    return f"the largest array of the forward pass has {difference.got} numbers; {difference.expected} are allowed"


COLLECT = (
    "Collect the tokens of each expert in an array of shape (E, C, D), and multiply that. It has about T · k rows in "
    "all, and not T · E."
)

PROBLEM = Problem(
    title="A mixture of experts",
    minutes=70,
    builds_on=(5, 6),
    entries=(
        Entry(
            MOE, ("x",), construct=("d_model", "d_ff", "num_experts", "top_k", "capacity"), returns=("out", "balance")
        ),
    ),
    cases={
        "cases": Cases(tokens, {"T": (5, 7), "D": (6,), "F": (8,), "E": (4,), "k": (2,), "C": (9,)}, draws=1),
        "full": Cases(full, {"T": (11, 13), "D": (6,), "F": (8,), "E": (5,), "k": (3,), "C": (4,)}, draws=1),
        "smallest": Cases(
            smallest, {"T": (5,), "D": (9,), "F": (8,), "E": (7,), "k": (1,), "C": (1,)}, draws=1,
            covers=("coprime", "one")
        ),
        "long": Cases(long, {"T": (1031,), "D": (2,), "F": (3,), "E": (2,), "k": (2,), "C": (700,)}, draws=1),
        "large": Cases(tokens, {"T": (128, 123), "D": (16,), "F": (17,), "E": (15,), "k": (2,), "C": (20,)}, draws=1),
    },
    checks=(
        parameters(MOE, points=1),
        Check("output", 2, "values", VALUES, "output.out"),
        Check("balance loss", 1, "values", VALUES, "output.balance"),
        Check("gradient", 2, "values", VALUES, "gradient"),
        *output_and_gradient(
            MOE, wrt="parameters", points=(2, 1), cases="full", names=("full experts", "full experts, gradient")
        ),
        Check("one choice and one place", 1, "values", {"entry": MOE}, "output", "smallest"),
        Check("all experts chosen in a long story", 1, "values", {"entry": MOE}, "output", "long"),
        Check(
            "only the chosen experts run", 1, "values", {"entry": MOE}, "program.work", "large", "at_most", WORK,
            in_words=work, advice=COLLECT,
        ),
        Check(
            "only the chosen experts run with gradients", 1, "values", VALUES, "program.work", "large", "at_most", WORK,
            in_words=work_of_both, advice=COLLECT,
        ),
        Check(
            "no array for all tokens and "
            "experts", 1, "values", {"entry": MOE}, "program.largest_array", "large", "at_most",
            ARRAYS, in_words=array,
            advice="Write the rows to their places with `.at[expert, place].set`, and read them with `.at[expert, "
                "place].get`.",
        ),
    ),
)  # fmt: skip
