"""Probes of problem 77: codes and scales of a layer, their bytes, and the error of its outputs. Run in workers."""

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p77_gptq.problem import SECONDS


@eager
def quantizing(subject: Subject, case: Case) -> Reading:
    """The codes and the scales of a layer, and what W is afterwards."""
    W, X, bits, group = (_copy(case.values[name]) for name in ("W", "X", "bits", "group"))
    codes, scale = subject.call("gptq", W, X, bits, group)
    D, F = np.shape(case.values["W"])
    return Reading({
        "codes": _array(codes, (D, F), np.int8, "codes"),
        "scale": _array(scale, (-(-D // group), F), np.float64, "scale"),
        "W": W,
    })  # fmt: skip


@eager
def timing(subject: Subject, case: Case) -> Reading:
    """The same, within a limit of time."""
    start = process_time()
    reading = quantizing(subject, case)
    if process_time() - start > SECONDS:
        D = len(case.values["W"])
        raise BadOutputError(
            f"{D} features take more than {SECONDS:g} s of computing; one inverse of a matrix of all of them is enough"
        )
    return reading


@eager
def packing(subject: Subject, case: Case) -> Reading:
    """Two codes in each byte."""
    D, F = np.shape(case.values["codes"])
    found = subject.call("pack", _copy(case.values["codes"]))
    return Reading({"packed": _array(found, (D // 2, F), np.uint8, "pack")})


@eager
def restoring(subject: Subject, case: Case) -> Reading:
    """The weights that bytes and scales stand for."""
    H, F = np.shape(case.values["packed"])
    found = subject.call("restore", *(_copy(case.values[name]) for name in ("packed", "scale", "group")))
    return Reading({"restored": _array(found, (2 * H, F), np.float64, "restore")})


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """The error of the outputs as a multiple of that of plain rounding, and whether it is under half of it."""
    W, X, bits, group = (case.values[name] for name in ("W", "X", "bits", "group"))
    largest = 2 ** (bits - 1) - 1
    starts = range(0, len(W), group)
    plain = np.repeat([abs(W[start : start + group]).max(axis=0) / largest for start in starts], group, axis=0)
    scale = np.repeat(arrays["scale"], group, axis=0)[: len(W)]
    codes = np.clip(arrays["codes"].astype(np.float64), -largest, largest)
    plain = plain[: len(W)]
    ratio = np.linalg.norm(X @ (codes * scale - W)) / np.linalg.norm(X @ (np.round(W / plain) * plain - W))
    return Reading({"error": np.float64(ratio), "half": np.int32(ratio < 0.5)})


def _copy(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray) else value


def _array(value: Any, shape: tuple[int, ...], dtype: Any, name: str) -> Any:
    """The value as an array. Raises BadOutputError if it has another shape or dtype."""
    found = np.asarray(value)
    if found.shape != shape or found.dtype != dtype:
        raise BadOutputError(f"`{name}` is {described(value)}; it must be {np.dtype(dtype).name} of shape {shape}")
    return found


PROBES = {"quantizing": quantizing, "timing": timing, "packing": packing, "restoring": restoring}
READERS = {"quantizing": read, "timing": read}
