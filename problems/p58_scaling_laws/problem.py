"""Problem 58: a scaling law, fitted to runs, and what it says about a budget."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact, output
from grader.problem import Cases, Check, Entry, Problem, Tolerance

SIZES = ("vocab_size", "context", "d_model", "d_ff", "num_layers")
OBJECTIVE = {"entry": "huber_objective", "wrt": ["law"]}
# N and D are exponentials of numbers near 20, of which float32 keeps 2e-6: their relative error is as large. A parabola
# that is fitted in float32 without centering is rougher.
ROUGH = Tolerance(rtol=1e-3, atol=1e-3)
# Logarithms of losses are near 1 and keep 1e-6 in float32; their differences are 0.01 to 0.4. Wrong formulas are off by
# 10%.
DISTANCES = Tolerance(rtol=1e-3, atol=1e-5)
# Measured: L-BFGS and Gauss-Newton in float64 find laws whose losses agree to 1e-6. A fit on a linear scale differs by
# 8e-4.
FIT = Tolerance(rtol=3e-5, atol=3e-5)


def law_of(rng: Any) -> Any:
    """A law near that of Hoffmann et al. 2022: log A, log B, log E, alpha, beta."""
    import numpy as np

    return np.array([np.log(400), np.log(500), np.log(1.7), 0.34, 0.3]) + rng.uniform(-1, 1, 5) * [
        0.3,
        0.3,
        0.1,
        0.03,
        0.03,
    ]


def losses_of(law: Any, N: Any, D: Any) -> Any:
    import numpy as np

    return np.exp(law[2]) + np.exp(law[0]) / N ** law[3] + np.exp(law[1]) / D ** law[4]


def model(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a model, whose feed-forward network is not four times as wide."""
    d_model = int(rng.integers(3, 9)) * 64
    return {
        "vocab_size": sizes.get("V") or int(rng.integers(1000, 50_000)),
        "context": int(rng.choice([256, 512, 1024])),
        "d_model": d_model * sizes.get("times", 1),
        "d_ff": d_model * sizes.get("times", 1) * sizes["wider"] + 64,
        "num_layers": sizes["L"],
    }


def runs(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A law and runs, of which some are far from it: the differences of logarithms are below and above delta."""
    import numpy as np

    law, R = law_of(rng), sizes["R"]
    N, D = 10 ** rng.uniform(7, 9.5, R), 10 ** rng.uniform(8.5, 11, R)
    apart = rng.permutation([*np.linspace(-0.05, 0.05, R - 2), 0.4, -0.3])
    values = {"law": law, "N": N, "D": D, "losses": losses_of(law, N, D) * np.exp(apart)}
    delta = 0.02 if sizes["narrow"] else 0.1
    return {**{name: value.astype("float32") for name, value in values.items()}, "delta": delta}


def one_run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A single run, of the largest size that people trained: 10^12 parameters and 10^13 tokens or more."""
    import numpy as np

    values = {"law": law_of(rng), "N": 10 ** rng.uniform(12, 12.5, 1), "D": 10 ** rng.uniform(13, 13.5, 1)}
    return {name: np.asarray(value, "float32") for name, value in values.items()}


def experiment(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Runs of six sizes with up to six numbers of tokens each, with noise, and three that failed: their losses are too
    high."""
    import numpy as np

    law = law_of(rng)
    N = np.repeat(10 ** np.linspace(6, 9, 6), 6)
    D = N * np.tile(10 ** np.linspace(0.3, 2.3, 6), 6)
    losses = losses_of(law, N, D) * np.exp(0.01 * rng.standard_normal(len(N)))
    losses[rng.choice(len(N), sizes["failed"], replace=False)] *= rng.uniform(1.1, 1.4, sizes["failed"])
    return {"N": N, "D": D, "losses": losses, "delta": 1e-3}


def budget(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A law whose two exponents differ, a number of operations, and how many a parameter and token take: not 6."""
    law = law_of(rng)
    law[3:] = rng.permutation([0.25, 0.4]) + rng.uniform(-0.02, 0.02, 2)
    flops = float(f"{10 ** rng.uniform(sizes['from'], sizes['from'] + 2):.3g}") if sizes["from"] < 24 else 1e24
    return {"law": law.astype("float32"), "flops": flops, "per_parameter": float(f"{rng.uniform(6.5, 20):.3g}")}


def isoflop(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Losses of models of different sizes with equal operations. The lowest run is not at the minimum of the
    parabola."""
    import numpy as np

    R = sizes["R"]
    log_N = np.log(10) * rng.uniform(6.5, 8.5) + np.linspace(-1.5, 1.5, R) + rng.uniform(-0.1, 0.1, R)
    vertex = log_N.mean() + rng.choice([-0.6, 0.6]) + rng.uniform(-0.1, 0.1)
    losses = 3 + 0.1 * (log_N - vertex) ** 2 + 0.005 * rng.standard_normal(R)
    order = rng.permutation(R)
    return {"N": np.exp(log_N)[order].astype("float32"), "losses": losses[order].astype("float32")}


def counted(name: str, entry: str, cases: str) -> Check:
    return exact(name, 1, "counting", "count", options={"entry": entry}, cases=cases)


PROBLEM = Problem(
    title="Scaling laws",
    minutes=120,
    builds_on=(23, 57),
    entries=(
        Entry("count_parameters", SIZES),
        Entry("non_embedding_parameters", SIZES),
        Entry("predicted_loss", ("law", "N", "D")),
        Entry("huber_objective", ("law", "N", "D", "losses", "delta")),
        Entry("fit_scaling_law", ("N", "D", "losses", "delta")),
        Entry("optimal_allocation", ("law", "flops", "per_parameter"), returns=("N", "D")),
        Entry("isoflop_minimum", ("N", "losses")),
    ),
    cases={
        "models": Cases(model, {"wider": (3, 4), "L": (2, 1, 7)}, draws=2),
        # As large as GPT-3: more than 2^31 parameters.
        "large models": Cases(
            model, {"wider": (3,), "L": (96,), "V": (50_257,), "times": (23,)}, draws=1, covers=("layers", "vocabulary")
        ),
        "runs": Cases(runs, {"R": (7,), "narrow": (0, 1)}, draws=2, covers=("coprime",)),
        "one run": Cases(one_run, {"R": (1,)}, draws=1, covers=("one",)),
        "experiments": Cases(experiment, {"failed": (3,)}, draws=2),
        "budgets": Cases(budget, {"from": (17, 24)}, draws=2),
        "isoflop": Cases(isoflop, {"R": (6,)}, draws=2),
    },
    checks=(
        counted("all parameters", "count_parameters", "models"),
        counted("parameters of the blocks", "non_embedding_parameters", "models"),
        counted("parameters of a large model", "count_parameters", "large models"),
        output("predicted_loss", points=1, name="predicted loss", cases="runs"),
        output("predicted_loss", points=1, name="loss of one large run", cases="one run"),
        Check("objective", 2, "values", OBJECTIVE, "output", "runs", tolerance=DISTANCES),
        Check("gradient of the objective", 1, "values", OBJECTIVE, "gradient", "runs", tolerance=DISTANCES),
        Check("fit", 3, "fitting", leaves="fit", cases="experiments", tolerance=FIT, calls=("fit_scaling_law",),
              advice="`fit.losses` are what the fitted law predicts for other N and D."),
        output("optimal_allocation", points=2, name="best N and D for a budget", cases="budgets", tolerance=ROUGH),
        output("isoflop_minimum", points=2, name="isoFLOP minimum", cases="isoflop", tolerance=ROUGH),
    ),
)  # fmt: skip
