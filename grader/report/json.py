"""The report as one JSON object. Its keys are kept stable; `schema` counts incompatible changes."""

import json
from typing import Any

import numpy as np

from grader.problem import Case
from grader.verdict import NOTHING_RUN, CheckResult, Report

SCHEMA = 1
_SHOWN = 2000  # numbers of one array that are worth sending


def as_object(report: Report) -> dict[str, Any]:
    """The object itself."""
    return {
        "schema": SCHEMA,
        "problem": report.problem.name,
        "verdict": str(report.verdict),
        "score": report.score,
        "points": report.problem.points,
        "checks": [
            {
                "name": r.check.name,
                "passed": r.passed,
                "points": r.check.points,
                "message": r.message,
                "verdict": str(r.verdict),
                "kind": r.mismatch.kind if r.mismatch else "",
            }
            for r in report.checks
        ],
        "misconception": report.misconception
        and {"name": report.misconception.name, "says": report.misconception.says},
        "part": report.part,
        "earlier": report.earlier
        and {
            "problem": report.earlier.problem.name,
            "verdict": str(report.earlier.verdict),
            "misconception": report.earlier.misconception and report.earlier.misconception.name,
        },
        "notes": list(report.notes),
        "counterexample": _counterexample(report.first_failure),
        "stdout": report.stdout,
        "isolation": report.isolation,
        "seconds": round(report.seconds, 3),
    }


def refused(problem: str | None, message: str) -> dict[str, Any]:
    """The object for a request that could not be carried out."""
    return {
        "schema": SCHEMA, "problem": problem, "verdict": "ERROR", "score": 0, "points": 0,
        "checks": [
            {"name": "request", "passed": False, "points": 0, "message": message, "verdict": "ERROR", "kind": ""}
        ],
        "misconception": None, "part": "", "earlier": None, "notes": [], "counterexample": None, "stdout": "",
        "isolation": NOTHING_RUN, "seconds": 0.0,
    }  # fmt: skip


def dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _counterexample(failed: CheckResult | None) -> dict[str, Any] | None:
    if failed is None or failed.mismatch is None or failed.case is None:
        return None
    mismatch = failed.mismatch
    return {
        "inputs": inputs(failed.case),
        "leaf": mismatch.path,
        "index": list(mismatch.index) if mismatch.index is not None else None,
        "expected": _number(mismatch.expected),
        "got": _number(mismatch.got),
    }


def _number(text: str) -> float | str:
    """A number where it is one that JSON can hold; else the words for it (a shape, `nan`, `split over model`)."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if np.isfinite(value) else text


def inputs(case: Case) -> dict[str, Any]:
    """The case's values by name; arrays as nested lists, non-finite numbers as text, giant arrays cut."""
    found: dict[str, Any] = {}
    for name, value in case.values.items():
        if isinstance(value, np.ndarray):
            found[name] = _finite(value.tolist()) if value.size <= _SHOWN else f"{value.dtype}{list(value.shape)}"
        else:
            found[name] = value
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)
