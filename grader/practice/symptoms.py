"""The symptoms that the owner of a faulty program sees: not a failing check, but numbers from a run of the program."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from grader.checks import YES
from grader.judge.blocked import NOT_JUDGED
from grader.judge.verdict import CheckResult, Verdict
from grader.problem import Case, Check
from grader.wire.compare import Mismatch

_ENDS = {Verdict.ERROR: "error", Verdict.TIMEOUT: "timeout", Verdict.MEMORY: "memory", Verdict.NOT_ATTEMPTED: "error"}
_DECIDE = ("error", "timeout", "memory", "nan", "tree", "shape", "dtype", "sees the future", "sees too far", "blind")
_LINE = re.compile(r"\s*\((?:\w+\.py, )?(?:line|in|at) [^)]*\)|,? (?:on|in|at) line \d+")

DEPENDS = "depends"  # a leaf (T, T): whether an output depends on an input
MOST_INPUTS, LONGEST_INPUT, MOST_NUMBERS = 6, 30, 12


@dataclass(frozen=True)
class Kind:
    """A kind of symptom.

    Attributes:
        name: The name of the kind.
        sees: The text on what the owner sees, with places to fill in.
        questions: Questions that help to find the fault.
        found: One or several ways in which an experienced person finds it.
        names: Parts of the names of checks that it fits.
        outcome: The class of outcomes that it fits; see `_outcome`.
        is_telling: Whether it is shown even if a check before it failed as well.
    """

    name: str
    sees: str
    questions: tuple[str, ...]
    found: tuple[str, ...]
    names: tuple[str, ...] = ()
    outcome: str = ""
    is_telling: bool = False


@dataclass(frozen=True)
class Symptom:
    """A symptom that the owner of a program sees, as a text, and its kind."""

    kind: Kind
    text: str


@cache
def kinds() -> tuple[Kind, ...]:
    """Returns the kinds in the order in which they are tried."""
    rows = tomllib.loads(files(__package__).joinpath("symptoms.toml").read_text(encoding="utf-8"))["kind"]
    return tuple(
        Kind(
            row["name"], row["sees"], tuple(row["questions"]),
            (row["found"],) if isinstance(row["found"], str) else tuple(row["found"]),
            tuple(row.get("names", ())), row.get("outcome", ""), row.get("telling", False),
        )
        for row in rows
    )  # fmt: skip


def of(*failed: CheckResult) -> Symptom:
    """Returns the symptom of a program that failed these checks: that of the first one, unless another is more
    telling."""
    found = [(next(kind for kind in kinds() if _fits(kind, result)), result) for result in failed]
    kind, result = next((each for each in found if each[0].is_telling), found[0])
    return Symptom(kind, _text(kind, result))


def _text(kind: Kind, result: CheckResult) -> str:
    text = " ".join(kind.sees.format_map(_facts(result)).split())
    return text.replace(" .", ".").replace(" ,", ",").replace(" :", ":")


def by_name(name: str) -> Kind:
    """Returns the kind with that name; the last one, which fits all, if there is none."""
    return next((kind for kind in kinds() if kind.name == name), kinds()[-1])


def _fits(kind: Kind, result: CheckResult) -> bool:
    if kind.outcome and kind.outcome == _outcome(result):
        return True
    if _outcome(result) in _DECIDE:
        return False
    return any(part in result.check.name.lower() for part in kind.names) or not (kind.outcome or kind.names)


def _outcome(result: CheckResult) -> str:
    """Classifies the end or the numbers of a failing check by what it has in common with others. Empty if there are
    none."""
    check, mismatch = result.check, result.mismatch
    if result.verdict in _ENDS:
        return _ENDS[result.verdict]
    if mismatch is None:
        return ""
    if mismatch.kind != "value":
        return {"missing": "tree", "unexpected": "tree"}.get(mismatch.kind, mismatch.kind)
    if pair := _dependence(mismatch):
        position, changed = pair
        return "blind" if mismatch.expected == YES[1] else "sees the future" if changed > position else "sees too far"
    if not math.isfinite(_number(mismatch.got)) and math.isfinite(_number(mismatch.expected)):
        return "nan"
    return (
        "counts"
        if check.tolerance.rtol == 0 and not check.measures and not check.words and _is_whole(mismatch.got)
        else ""
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _facts(result: CheckResult) -> Mapping[str, str]:
    """Returns the values that the text of a symptom can contain, by name."""
    mismatch = result.mismatch
    message = _LINE.sub("", result.message.removeprefix(NOT_JUDGED)).rstrip(".")
    facts = {"message": message, "where": _where(result.case), "leaf": "", "place": "", "got": "", "expected": ""}
    if mismatch:
        facts |= {"leaf": mismatch.name, "place": mismatch.place, "got": _said(result.check, mismatch.got, result.case),
                  "expected": _said(result.check, mismatch.expected, result.case)}  # fmt: skip
    return facts | {"difference": _difference(result, facts)}


def _difference(result: CheckResult, facts: Mapping[str, str]) -> str:
    mismatch = result.mismatch
    if mismatch is None or mismatch.words:
        return facts["message"]
    if mismatch.kind != "value":
        return mismatch.sentence()
    share = f", and {mismatch.wrong} of {mismatch.total} values differ" if (mismatch.total or 0) > 1 else ""
    if pair := _dependence(mismatch):
        position, changed = pair
        does = "does not depend" if mismatch.expected == YES[1] else "depends"
        return f"output {position} {does} on input {changed}"
    owner = _entry(result.check) if mismatch.path.split(".")[0] == "output" else ""
    place = f"`{facts['place']}`{f' of `{owner}`' if owner else ''}"
    if facts["expected"].startswith("at most"):
        return f"{place} is {facts['got']}, and may be {facts['expected']}{share}"
    return f"{place} is {facts['got']}, where {facts['expected']} is right{share}"


def _dependence(mismatch: Mismatch) -> tuple[int, ...]:
    """Returns the positions of the output and the input whose dependence is wrong; empty if a check compares something
    else."""
    return (mismatch.index or ()) if mismatch.path.endswith(DEPENDS) and len(mismatch.index or ()) == 2 else ()


def _entry(check: Check) -> str:
    """Returns the function or class that a check calls; empty if there are several."""
    names = check.calls or ([str(check.options["entry"])] if "entry" in check.options else [])
    return names[0] if len(names) == 1 else ""


def _said(check: Check, text: str, case: Case | None) -> str:
    """Formats a value as the report does: in words, if the check has some for it."""
    words = check.words_for(case) if case else {}
    return words.get(int(text), text) if _is_whole(text) else text


def _where(case: Case | None) -> str:
    """Describes the inputs with which the symptom was seen: numbers, short texts, whole numbers of small arrays, and
    the shapes of other arrays."""
    named = []
    for name, value in case.values.items() if case else ():
        said = _said_input(value)
        named += [name + said] if len(said) <= LONGEST_INPUT else []
    return f"(with {', '.join(named[:MOST_INPUTS])})" if named else ""


def _said_input(value: Any) -> str:
    if not (shape := getattr(value, "shape", ())):
        return f" = {value!r}" if isinstance(value, str) else f" = {value}"
    whole = f" = {value.tolist()}" if value.dtype.kind in "biu" and value.size <= MOST_NUMBERS else ""
    return whole if whole and len(whole) <= LONGEST_INPUT else f" {shape}"
