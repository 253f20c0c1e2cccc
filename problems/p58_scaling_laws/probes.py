"""Probes of problem 58: the two counts of parameters, and what a fitted law predicts. Run in workers."""

import numpy as np
import scipy.optimize  # noqa: F401  imported here, before the worker is confined: most submissions use it

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p58_scaling_laws.problem import SIZES

MOST = 1e9  # of a loss: an infinite one would be near every other
# Between the runs and beyond them. A law is compared by its losses, because other numbers can give nearly the same
# ones.
N, D = np.array([3e7, 1e8, 1e9, 1e10]), np.array([1e12, 1e11, 1e10, 2e11])


@eager
def counting(subject: Subject, case: Case, entry: str) -> Reading:
    """One of the two counts of parameters."""
    count = subject.call(entry, *(case.values[name] for name in SIZES))
    if isinstance(count, bool) or not hasattr(count, "__int__") or np.ndim(count) or not float(count).is_integer():
        raise BadOutputError(f"`{entry}` returned {described(count)}; it must return an int")
    return Reading({"count": np.int64(max(min(int(count), 1 << 60), -(1 << 60)))})


@eager
def fitting(subject: Subject, case: Case) -> Reading:
    """The losses that the fitted law predicts."""
    values = case.values
    runs = (np.array(values[name], np.float64) for name in ("N", "D", "losses"))
    law = np.asarray(subject.call("fit_scaling_law", *runs, values["delta"]))
    if law.shape != (5,) or law.dtype.kind != "f":
        raise BadOutputError(f"`fit_scaling_law` returned {described(law)}; it must return five numbers, (5,)")
    log_A, log_B, log_E, alpha, beta = law.astype(np.float64)
    with np.errstate(over="ignore"):
        losses = np.exp(log_A - alpha * np.log(N)) + np.exp(log_B - beta * np.log(D)) + np.exp(log_E)
    return Reading({"fit.losses": np.minimum(losses, MOST)})


PROBES = {"counting": counting, "fitting": fitting}
