"""Probes of problem 56: features of texts, fits, thresholds and the texts that a filter keeps. Run in workers."""

from typing import Any

import numpy as np
import scipy.optimize  # noqa: F401  imported here, before the worker is confined: many submissions use it

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case


@eager
def hashing(subject: Subject, case: Case) -> Reading:
    """The features of a text."""
    values = case.values
    B, found = values["num_buckets"], subject.call("features", values["text"], values["num_buckets"], values["seed"])
    return Reading({"shares": _floats(found, (B,), "features")})


@eager
def fitting(subject: Subject, case: Case) -> Reading:
    """The weights and the bias of a fit."""
    x, labels = (np.array(case.values[name]) for name in ("x", "labels"))
    weights, bias = subject.call("fit", x, labels, case.values["l2"])
    return Reading({
        "fit.weights": _floats(weights, (x.shape[1],), "fit"), "fit.bias": _floats(bias, (), "fit"),
    })  # fmt: skip


@eager
def thresholding(subject: Subject, case: Case) -> Reading:
    """The threshold for a recall."""
    scores, labels = (np.array(case.values[name]) for name in ("scores", "labels"))
    found = subject.call("choose_threshold", scores, labels, case.values["recall"])
    return Reading({"threshold": _floats(found, (), "choose_threshold")})


@eager
def judging(subject: Subject, case: Case) -> Reading:
    """Precision and recall."""
    scores, labels = (np.array(case.values[name]) for name in ("scores", "labels"))
    precision, recall = subject.call("evaluate", scores, labels, case.values["threshold"])
    return Reading({
        "share.precision": _floats(precision, (), "evaluate"), "share.recall": _floats(recall, (), "evaluate"),
    })  # fmt: skip


@eager
def training(subject: Subject, case: Case) -> Reading:
    """The filter of a corpus."""
    values = case.values
    weights, bias, threshold = subject.call(
        "train_filter", str(values["texts"]).split("\n"), np.array(values["labels"]), str(values["groups"]).split("\n"),
        *(values[name] for name in ("num_buckets", "seed", "l2", "recall")),
    )  # fmt: skip
    return Reading({
        "filter.weights": _floats(weights, (values["num_buckets"],), "train_filter"),
        "filter.bias": _floats(bias, (), "train_filter"), "filter.threshold": _floats(threshold, (), "train_filter"),
    })  # fmt: skip


@eager
def keeping(subject: Subject, case: Case) -> Reading:
    """Which texts a filter keeps."""
    values = case.values
    texts = str(values["texts"]).split("\n")
    found = np.asarray(
        subject.call(
            "keep", texts, np.array(values["weights"]), *(values[name] for name in ("bias", "threshold", "seed"))
        )
    )
    if found.shape != (len(texts),) or found.dtype != bool:
        raise BadOutputError(f"`keep` returned {described(found)}; it must return ({len(texts)},) booleans")
    return Reading({"kept": found.astype(np.int32)})


def _floats(value: Any, shape: tuple[Any, ...], name: str) -> Any:
    """A float or an array of this shape. Raises BadOutputError if it is something else."""
    found = np.asarray(value)
    if found.shape != shape or found.dtype.kind != "f":
        what = f"({shape[0]},) floats" if shape else "a float"
        raise BadOutputError(f"`{name}` returned {described(value)} where it must return {what}")
    return found.astype(np.float64)


PROBES = {
    "hashing": hashing,
    "fitting": fitting,
    "thresholding": thresholding,
    "judging": judging,
    "training": training,
    "keeping": keeping,
}
