"""Probes of problem 78: times, rates, meshes, and the decisions that follow from them. Run in workers."""

import ast
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p78_roofline.problem import DEVICE, H100, LIMITS, MESH, MESHES, MODEL, PRODUCTS, RATE, RATES, SECONDS

NEITHER = 2  # two rates are equal


@eager
def timing(subject: Subject, case: Case) -> Reading:
    """The seconds of an operation, and the number of its limit."""
    values: Any = case.values
    seconds, limit = _timed(subject, values["op"], ast.literal_eval(values["shape"]), values["bits"], _device(case))
    return Reading({"operation.seconds": seconds, "operation.limit": limit})


@eager
def counting(subject: Subject, case: Case, entry: str) -> Reading:
    """The number that an entry returns for a model."""
    more = [(int(case.values["data"]), int(case.values["tensor"]))] if "data" in case.values else []
    found = subject.call(entry, _model(case), case.values["batch"], case.values["context"], _device(case), *more)
    return Reading({"number": _number(entry, found)})


@eager
def choosing(subject: Subject, case: Case) -> Reading:
    """The best mesh."""
    values = case.values
    arguments = _model(case), values["batch"], values["context"], _device(case), values["devices"]
    return Reading({"mesh": _mesh(subject, *arguments)})


@eager
def deciding(subject: Subject, case: Case) -> Reading:
    """The twelve decisions."""
    found = [int(_timed(subject, *arguments, 16, H100)[1]) for arguments in PRODUCTS.values()]
    for choices in RATES.values():
        rates = [float(_number(RATE, subject.call(RATE, *map(_copied, each)))) for each in choices.values()]
        found.append(NEITHER if rates[0] == rates[1] else int(np.argmax(rates)))
    found += [int(_mesh(subject, *map(_copied, arguments))[0]) for arguments in MESHES.values()]
    return Reading({"decisions": np.array(found, np.int64)})


def _device(case: Case) -> dict[str, float]:
    return {name: case.values[name] for name in DEVICE}


def _model(case: Case) -> dict[str, int]:
    return {name: case.values[name] for name in MODEL}


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def _timed(subject: Subject, op: str, shape: tuple[int, ...], bits: Any, device: Any) -> tuple[np.float64, np.int64]:
    found = subject.call(SECONDS, op, shape, bits, dict(device))
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise BadOutputError(f"`{SECONDS}` returned {described(found)}; it must return (seconds, limit)")
    if found[1] not in LIMITS:
        raise BadOutputError(f"`{SECONDS}` returned {found[1]!r} as the limit; it must be one of {', '.join(LIMITS)}")
    return _number(SECONDS, found[0]), np.int64(LIMITS.index(found[1]))


def _mesh(subject: Subject, *arguments: Any) -> np.ndarray:
    found = subject.call(MESH, *arguments)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise BadOutputError(f"`{MESH}` returned {described(found)}; it must return (data, tensor)")
    return np.array([int(_number(MESH, each)) for each in found], np.int64)


def _number(entry: str, found: Any) -> np.float64:
    """A number of Python or NumPy. Raises BadOutputError if it is something else."""
    if np.shape(found) or not isinstance(found, int | float | np.number):
        raise BadOutputError(f"`{entry}` returned {described(found)}; it must return a Python or NumPy number")
    return np.float64(found)


PROBES = {"timing": timing, "counting": counting, "choosing": choosing, "deciding": deciding}
