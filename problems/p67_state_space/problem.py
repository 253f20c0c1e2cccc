"""Problem 67: a selective state space, by a parallel scan and step by step."""

from collections.abc import Mapping
from typing import Any

from grader.checks import cache_in_words, causality, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

SCAN, SSM = "selective_scan", "SelectiveSSM"


def sequence(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Inputs, step sizes and matrices of a scan that begins in some state."""
    import numpy as np

    T, D, N = (sizes[name] for name in ("T", "D", "N"))
    values = {
        "u": rng.standard_normal((T, D)),
        "dt": rng.uniform(0.1, 0.9, (T, D)),
        "a": -rng.uniform(0.2, 2.0, (D, N)),
        "b": rng.standard_normal((T, N)),
        "c": rng.standard_normal((T, N)),
        "state": rng.standard_normal((D, N)),
    }
    return {name: np.asarray(value, "float32") for name, value in values.items()}


def forgetful(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Large step sizes, by which the products of the decays round to 0 after a few positions, and a few that are 0.

    One is so large that its own decays round to 0: exp(-0.2 * 0.1 * 9,000) does. Its token is small, so that what it
    writes is not larger than what others write.
    """
    values = sequence(sizes, rng)
    values["dt"] *= 30
    values["dt"][::3] /= 300
    values["dt"][2] = 0
    values["dt"][4] *= 300
    values["u"][4] /= 300
    return values


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations (T, D), and where a text in two parts is divided."""
    T, D = sizes["T"], sizes["D"]
    return {
        "d_model": D,
        "d_state": sizes["N"],
        "x": rng.standard_normal((T, D)).astype("float32"),
        "first": max(T // 2 - 1, 1),
    }


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs. Of a text in two parts, the second begins at position `first`."""
    inputs = {name: value for name, value in values.items() if name != "first"}
    return {**inputs, "second part, if there are two": f"from position {values['first']} on"}


SCAN_OPTIONS = {"entry": SCAN, "wrt": ["u", "dt", "a", "b", "c", "state"]}
# A scan by doubling takes about as many operations as the reference, or half as many. Position by position, there are
# 30 times as many or more.
ROUNDS = Tolerance(rtol=3.0, atol=0.0, room=3)
# A scan by doubling, with log T passes over all positions, takes 3.2 times the work of the reference. All pairs of
# positions take more than 100 times as much.
WORK = Tolerance(rtol=9.0, atol=0.0, room=3)
BYTES = Tolerance(rtol=0.1, atol=64, room=3)
STEP = Tolerance(rtol=1e-4, atol=1e-4)


def rounds(case: Case, difference: Difference) -> str:
    T = len(case.values["u"])
    return (
        f"for {T} positions, the program executes {difference.got} operations one after another; {difference.expected} "
        "are allowed"
    )


def work(case: Case, difference: Difference) -> str:
    return f"the program executes {difference.got} scalar operations; {difference.expected} are allowed"


PROBLEM = Problem(
    title="A selective state space",
    minutes=125,
    builds_on=(3, 17, 39),
    entries=(
        Entry(SCAN, ("u", "dt", "a", "b", "c", "state"), returns=("y", "state")),
        Entry(SSM, ("x",), construct=("d_model", "d_state")),
    ),
    cases={
        "sequences": Cases(sequence, {"T": (7, 1, 11), "D": (3,), "N": (4,)}, draws=2, covers=("coprime",)),
        "forgetful": Cases(forgetful, {"T": (13,), "D": (3,), "N": (2,)}, draws=1),
        "long": Cases(sequence, {"T": (250, 256, 243), "D": (2,), "N": (2,)}, draws=1),
        "cases": Cases(activations, {"T": (8, 6), "D": (6,), "N": (3, 4)}, draws=1, show=shown),
        "ones": Cases(activations, {"T": (3,), "D": (1,), "N": (1,)}, draws=1, show=shown, covers=("one",)),
        "long texts": Cases(activations, {"T": (64,), "D": (12,), "N": (3,)}, draws=1, show=shown),
    },
    row_by_row={"decoding": ["x"]},
    checks=(
        *output_and_gradient(
            SCAN, wrt=SCAN_OPTIONS["wrt"], points=(2, 1), names=("scan", "gradient of the scan"), cases="sequences"
        ),
        Check("strong decay stays finite", 1, "values", SCAN_OPTIONS, cases="forgetful"),
        Check(
            "positions in "
            "parallel", 2, "values", {"entry": SCAN}, "program.rounds", "long", "at_most", ROUNDS, in_words=rounds,
            advice="Join neighboring steps of all positions at once: `jax.lax.associative_scan` needs about 2 · "
            "log2(T) rounds. A loop runs its operations in every turn, whether it takes one position or a chunk of "
            "them.",
        ),
        Check(
            "work of a scan", 1, "values", {"entry": SCAN}, "program.work", "long", "at_most", WORK, in_words=work,
            advice="Join neighbors, and neighbors of neighbors, as `jax.lax.associative_scan` does: its work is linear "
                "in T.",
        ),
        parameters(SSM, points=1, initial=("a_log", "skip", "dt_proj.bias")),
        *output_and_gradient(SSM, wrt="parameters", points=(2, 1)),
        causality(SSM, argument="x", points=1),
        Check("a text in two parts", 1, "parts", leaves="output", tolerance=STEP),
        Check("one feature, and a part of one position", 1, "parts", leaves="output", cases="ones", tolerance=STEP),
        Check("steps with a cache", 1, "decoding", {"entry": SSM}, leaves="output", tolerance=STEP),
        Check(
            "size of the cache", 1, "decoding", {"entry": SSM}, "program.cache_bytes", "long texts", "at_most", BYTES,
            values_tolerance=STEP, in_words=cache_in_words,
            advice="The cache is the state (D, N) alone, however long the text is.",
        ),
    ),
)  # fmt: skip
