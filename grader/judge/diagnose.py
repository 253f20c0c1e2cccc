"""Finds the misconception, or the two, that reproduce the learner's numbers and contradict none of the checks that
passed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from grader.course.catalog import Misconception
from grader.judge.reference import Answers
from grader.judge.worker_session import Failure, Outcome
from grader.problem import NUMERIC, UNCHECKED, Case, Check, Tolerance
from grader.wire.compare import SAME, Leaf, Mismatch, compare, mismatches, select, to_be_equal

# Programs with one idea differ by a constant in what is measured of them. The wrong ideas of a problem differ by its
# sizes.
NEAR = 1.5
LOOSEST = 0.1  # statistics have wider tolerances, within which many ideas would agree
# Each pair costs a compilation, and where no pair fits, all are tried. Of 84 random pairs that are found, in problems
# 01 to 28 and the warm-up, 83 are among the first eight. A limit in seconds would give different verdicts on different
# machines.
MOST_PAIRS = 8


BAD_ENTRY = "bad_entry"  # an entry, or one of its arguments, is missing
UNWRITTEN = (BAD_ENTRY, "not_implemented")  # learners write one entry after another
# Failures that no edit of the reference has, so that none needs to be run.
NO_IDEA = frozenset("syntax missing_import processes exit refused protocol".split())

# The mismatches of an outcome, by check and case. Those of a submission are needed for each misconception, and those
# of a misconception for each submission.
_WRONG: WeakKeyDictionary[Outcome, dict[tuple[str, Case], dict[str, Mismatch]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one check on one case.

    Attributes:
        check: The check.
        case: The case.
        outcome: The outcome of the submission.
        wrong: Whether it was wrong.
        judged: Whether the check could be judged.
    """

    check: Check
    case: Case
    outcome: Outcome
    wrong: bool
    judged: bool = True


def tolerance_for(check: Check, got: Outcome) -> Tolerance:
    """Returns the tolerance of a check for an outcome: a gradient by finite differences is less exact."""
    return NUMERIC if got.numeric and check.leaves == "gradient" else check.tolerance


@dataclass(frozen=True)
class Diagnosis:
    """A misconception, or two as one, and the variant of the reference that has it."""

    misconception: Misconception
    variant: str


def diagnose(
    reference: Answers, evidence: Sequence[Evidence], most_pairs: int = MOST_PAIRS, suspects: Sequence[str] = ()
) -> Diagnosis | None:
    """Returns the misconception that explains every difference and is wrong nowhere else; None if there is none, or if
    several are.

    The variants `suspects` are tried first, and the first that gives all the learner's numbers is named: `grade verify`
    has shown that no other idea gives the numbers of a variant, on the cases of seed 0.

    If several explain everything, the one that reproduces most of the evidence is named, also in leaves that no check
    compares, and among these the one nearest to the numbers that checks only bound. If none does, tries pairs of
    misconceptions.
    """
    evidence = _telling(evidence)
    failures = [item for item in evidence if item.wrong]
    if (failure := failures[0].outcome.failure) and failure.kind in NO_IDEA:
        return None
    first, others = failures[0], failures[1:] + [item for item in evidence if not item.wrong]
    if same := _identical(reference, first, others, suspects):
        return Diagnosis(reference.misconceptions[same], same)
    fits = _explaining(reference, first, others)
    best = min(fits, key=lambda variant: len(fits[variant]), default=None)
    if best is None:
        shared = [item for item in others if item.wrong and _shares_run(item, first)]
        return _pair(reference, [first, *shared], others, most_pairs)
    if fits[best]:
        return _pair(reference, [fits[best][0], first], [*others, first], most_pairs, best)
    whole = _most([variant for variant in fits if not fits[variant]], partial(_agreement, reference, evidence))
    nearest = _most(whole, lambda variant: -_distance(reference, failures, variant))
    names = {reference.misconceptions[variant].name for variant in nearest}
    return Diagnosis(reference.misconceptions[nearest[0]], nearest[0]) if len(names) == 1 else None


def _telling(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """Returns the evidence that counts. The behavior of an entry is more informative than a missing entry or
    argument."""
    called = [item for item in evidence if not (item.outcome.failure and item.outcome.failure.kind in UNWRITTEN)]
    return called if any(item.wrong for item in called) else evidence


def _identical(reference: Answers, first: Evidence, others: Sequence[Evidence], suspects: Sequence[str]) -> str | None:
    """Returns the first of the variants `suspects` that gives exactly the learner's numbers; None if none does. Runs no
    variant after it: another form of the same idea often gives them, too."""

    def is_it(variant: str) -> bool:
        return (
            bool(_with_its_output(reference, first, [variant]))
            and _explains_first(reference, first, variant, loosely=False)
            and _fits(reference, others, [variant], loosely=False).get(variant) == []
            and all(_same_unchecked(reference, item, variant) for item in (first, *others))
        )

    return next(filter(is_it, suspects), None)


def _same_unchecked(reference: Answers, item: Evidence, variant: str) -> bool:
    """Returns whether a variant has the leaves that no check compares, which tell some ideas apart."""
    answer = reference.ask(item.check, item.case, variant).result()
    ours, theirs = (
        [leaf for leaf in side.leaves if leaf.path.startswith(UNCHECKED)] for side in (answer, item.outcome)
    )
    return compare(ours, theirs, _close(item)) is None


def _explaining(reference: Answers, first: Evidence, others: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Finds the variants that give the difference `first` and contradict nothing, each with the unexplained `others`.

    Variants that only give it `loosely` are sought where no other one fits.
    """
    asked = _with_its_output(reference, first, _possible(reference, first))
    for variant in asked:
        reference.ask(first.check, first.case, variant)
    for loosely in (False, True):
        # An idea that does not give the first difference costs one run only.
        possible = [variant for variant in asked if _explains_first(reference, first, variant, loosely=loosely)]
        if fits := _fits(reference, others, possible):
            return fits
    return {}


def _most(variants: Sequence[str], value: Callable[[str], float]) -> list[str]:
    """Returns the variants for which a value is largest."""
    if len(variants) == 1:
        return list(variants)
    values = {variant: value(variant) for variant in variants}
    return [variant for variant in variants if values[variant] == max(values.values())]


def _possible(reference: Answers, item: Evidence) -> list[str]:
    """Returns the variants that may explain an outcome: an error is explained only by those that raise one."""
    ideas = reference.misconceptions
    return [variant for variant in ideas if ideas[variant].raises or not item.outcome.failure]


def _with_its_output(reference: Answers, item: Evidence, variants: Iterable[str]) -> list[str]:
    """Returns those of the variants that have the output of an outcome, which is asked for without its gradient: this
    takes half the time. Returns all of them if there is no gradient."""
    output = _output_of(item)
    if output is None:
        return list(variants)
    asked = _ask_each(reference, item, output, variants)
    return [variant for variant, each in asked.items() if _same_output(reference, each, variant)]


def _output_of(item: Evidence) -> Evidence | None:
    """Returns the evidence of the output alone, without the gradient that the same run returns; None if the run returns
    no gradient."""
    options = {name: value for name, value in item.check.options.items() if name != "wrt"}
    if item.check.probe != "values" or len(options) == len(item.check.options) or item.outcome.failure:
        return None
    outcome = replace(item.outcome, leaves=select(item.outcome.leaves, "output"))
    return Evidence(replace(item.check, options=options, leaves="output"), item.case, outcome, item.wrong)


def _ask_each(
    reference: Answers, item: Evidence, output: Evidence | None, variants: Iterable[str]
) -> dict[str, Evidence]:
    """Asks for `output`, a part of `item`, with each variant; for `item` where its answer is known, or it has no such
    part. Returns the evidence that each was asked for."""
    asked = {
        variant: output if output and not reference.is_known(item.check, item.case, variant) else item
        for variant in variants
    }
    for variant, each in asked.items():
        reference.ask(each.check, each.case, variant)
    return asked


def _same_output(reference: Answers, item: Evidence, variant: str) -> bool:
    """Returns whether a variant has the output of the evidence, as far as its check could tell."""
    answer = reference.ask(item.check, item.case, variant).result()
    paths = {leaf.path for side in (answer, item.outcome) for leaf in select(side.leaves, "output")}
    return not answer.failure and all(_same_at(path, item, answer, loosely=True) for path in paths)


def _in_turn(reference: Answers, asked: Sequence[tuple[Evidence, str]]) -> Iterator[tuple[Evidence, str]]:
    """Yields each of `asked`, while the reference computes the next ones: as many as it computes at once."""
    for number, current in enumerate(asked):
        for item, variant in asked[number : number + reference.at_once]:
            reference.ask(item.check, item.case, variant)
        yield current


def _shares_run(item: Evidence, other: Evidence) -> bool:
    return item.case is other.case and item.check.run_key == other.check.run_key


def _explains_first(reference: Answers, first: Evidence, variant: str, *, loosely: bool) -> bool:
    """Returns whether a variant reproduces the first difference and all others there, and contradicts nothing.

    `loosely` treats numbers as equal that the check could not tell apart, because low precision drifts.
    """
    if first.outcome.failure:
        loosely = False
    if _unexplained(reference, first, variant, loosely=loosely) != []:
        return False
    if first.outcome.failure:
        return True
    expected, answer = (reference.ask(first.check, first.case, name).result() for name in ("", variant))
    wrong = _wrong(reference, first, first.outcome)
    return not _lacks_a_module(wrong, next(iter(wrong), ""), expected, answer)


def _fits(
    reference: Answers, others: Sequence[Evidence], possible: Iterable[str], *, loosely: bool = True
) -> dict[str, list[Evidence]]:
    """Returns the variants that contradict none of the evidence, each with the differences that it does not explain.

    Evidence that could not be judged needs no explanation. `loosely` compares as the checks do: long computations
    drift.
    """
    fits: dict[str, list[Evidence]] = {}
    for variant in possible:
        found = []
        for item, _ in _in_turn(reference, [(item, variant) for item in others]):
            unexplained = _unexplained(reference, item, variant, loosely=loosely)
            if unexplained is None:
                break
            if unexplained and item.judged:
                found.append(item)
        else:
            fits[variant] = found
    return fits


def _unexplained(reference: Answers, item: Evidence, variant: str, *, loosely: bool = False) -> list[str] | None:
    """Returns the leaves of the evidence that are wrong and differ from the variant's; None if the variant contradicts
    the evidence.

    It does if it is wrong where the evidence is right. `loosely` compares as the check does: long computations drift.
    """
    outcome, answer = item.outcome, reference.ask(item.check, item.case, variant).result()
    if outcome.failure or answer.failure:
        if not (outcome.failure and answer.failure):
            return [item.check.name] if outcome.failure and loosely else None
        return [] if _same_failure(answer.failure, outcome.failure, loosely=loosely) else [item.check.name]
    wrong, ideas = _wrong(reference, item, outcome), _wrong(reference, item, answer)
    if item.wrong and not wrong:  # it must be a program, and could not be traced
        return [] if not ideas and answer.notes == outcome.notes else [item.check.name]
    same = {path for path in {**wrong, **ideas} if _same_at(path, item, answer, loosely=loosely)}
    if any(path not in wrong and path not in same for path in ideas):
        return None
    return [path for path in wrong if path not in same or path not in ideas]


def _same_failure(one: Failure, other: Failure, *, loosely: bool) -> bool:
    """Returns whether two errors are the same; `loosely`, whatever their messages say, which may name sizes of a
    case."""
    return one.identity[: 2 if loosely else 3] == other.identity[: 2 if loosely else 3]


def _wrong(reference: Answers, item: Evidence, outcome: Outcome) -> dict[str, Mismatch]:
    """Returns the leaves of a check at which an outcome differs from the reference, in the order of a report."""
    known = _WRONG.setdefault(outcome, {})
    key = (item.check.name, item.case)
    if key not in known:
        known[key] = {mismatch.path: mismatch for mismatch in _mismatches(reference, item, outcome)}
    return known[key]


def _mismatches(reference: Answers, item: Evidence, outcome: Outcome) -> list[Mismatch]:
    expected = reference.ask(item.check, item.case).result()
    check, found = item.check, list[Mismatch]()
    if check.measures:  # a measure counts only for a program that returns the right values
        found = list(mismatches(*to_be_equal(expected.leaves, outcome.leaves), check.values_tolerance))
    if not found:
        want, have = (select(side.leaves, check.leaves) for side in (expected, outcome))
        found = list(mismatches(want, have, tolerance_for(check, outcome), check.compare))
    return found


def _same_at(path: str, item: Evidence, answer: Outcome, *, loosely: bool) -> bool:
    """Returns whether a variant's leaf equals the learner's: both are missing, or have the same numbers, or near ones
    where a check only bounds them."""
    ours, theirs = (_at(path, outcome) for outcome in (answer, item.outcome))
    if item.check.compare == "at_most" and ours and theirs and ours[0].shape == theirs[0].shape:
        return bool((_ratios(ours[0], theirs[0]) <= NEAR).all())
    tolerance = _close(item)
    if loosely:
        allowed = tolerance_for(item.check, item.outcome)
        tolerance = Tolerance(
            max(tolerance.rtol, min(allowed.rtol, LOOSEST)), max(tolerance.atol, min(allowed.atol, LOOSEST))
        )
    return compare(ours, theirs, tolerance) is None


@np.errstate(all="ignore")
def _ratios(one: Leaf, other: Leaf) -> NDArray[np.float64]:
    """Returns, for each pair of values, the ratio of the larger magnitude to the smaller one. Infinite for NaN."""
    ours, theirs = (np.abs(leaf.values.astype(np.float64)) for leaf in (one, other))
    ratios = np.where(ours == theirs, 1.0, np.maximum(ours, theirs) / np.minimum(ours, theirs))
    return np.nan_to_num(ratios, nan=np.inf, posinf=np.inf)


def _at(path: str, outcome: Outcome) -> list[Leaf]:
    return [leaf for leaf in outcome.leaves if leaf.path in (path, UNCHECKED + path)]


def _lacks_a_module(wrong: Mapping[str, Mismatch], path: str, expected: Outcome, answer: Outcome) -> bool:
    """Returns whether a submission lacks the whole module of a missing leaf, of which a variant has a part."""
    module = path.rpartition(".")[0]
    whole = [leaf.path for leaf in select(expected.leaves, module)] if module else []
    lacking = all(each in wrong and wrong[each].kind == "missing" for each in whole)
    return lacking and any(_at(each, answer) for each in whole)


def _close(item: Evidence) -> Tolerance:
    # A check on small numbers, or with an exact tolerance, needs an equally strict comparison here.
    return NUMERIC if item.outcome.numeric else replace(SAME, atol=min(SAME.atol, 10 * item.check.tolerance.atol))


def _agreement(reference: Answers, evidence: Sequence[Evidence], variant: str) -> int:
    """Returns the number of items of the evidence that a variant reproduces in all leaves, also those that no check
    compares."""

    def same(item: Evidence, answer: Outcome) -> bool:
        if answer.failure or item.outcome.failure:
            one, other = answer.failure, item.outcome.failure
            return one is not None and other is not None and _same_failure(one, other, loosely=False)
        return compare(answer.leaves, item.outcome.leaves, _close(item)) is None

    return sum(same(item, reference.ask(item.check, item.case, variant).result()) for item in evidence)


def _distance(reference: Answers, failures: Sequence[Evidence], variant: str) -> float:
    """Returns the distance of a variant from the learner's numbers in the leaves that checks only bound, as a sum of
    logarithms of ratios. Several ideas may exceed the same bound."""
    total = 0.0
    for item in failures:
        answer = reference.ask(item.check, item.case, variant).result()
        if item.check.compare == "at_most" and not answer.failure and not item.outcome.failure:
            sides = (
                {leaf.path: leaf for leaf in select(side.leaves, item.check.leaves)} for side in (answer, item.outcome)
            )
            ours, theirs = sides
            total += sum(float(np.log(_ratios(ours[path], theirs[path])).sum()) for path in ours.keys() & theirs.keys())
    return total


def _pair(
    reference: Answers, explained: Sequence[Evidence], others: Sequence[Evidence], most: int, known: str = ""
) -> Diagnosis | None:
    """Finds two misconceptions that together explain some of the evidence and contradict none; one of them is `known`,
    if given.

    Tries the pairs first whose effects on the first item, added or multiplied, come nearest to the learner's numbers. A
    misconception without an effect there cannot be part of a pair.
    """
    first = explained[0]
    if first.outcome.failure or not most:
        return None  # an exception shows one idea only
    tried = _nearest_pairs(reference, first, most, known)
    for _, together in _in_turn(
        reference, [(first, together) for together in _with_its_output(reference, first, tried)]
    ):
        explains = all(_unexplained(reference, item, together) == [] for item in explained)
        if explains and _fits(reference, others, [together]).get(together) == []:
            one, other = (reference.misconceptions[name] for name in tried[together])
            return Diagnosis(_both(one, other), together)
    return None


def _nearest_pairs(reference: Answers, first: Evidence, most: int, known: str) -> dict[str, tuple[str, str]]:
    """Returns at most `most` pairs of variants, nearest to the learner's numbers first, by the variant that is both.

    `known`, if not empty, is one of each pair.
    """
    ideas, alone = reference.misconceptions, _effects(reference, first, known)
    pairs = [pair for pair in combinations(alone, 2) if ideas[pair[0]] is not ideas[pair[1]] and known in ("", *pair)]
    plain, got = (
        _that_matters(first, side) for side in (reference.ask(first.check, first.case).result(), first.outcome)
    )
    gaps, place = _gaps(plain, alone.values(), got).round(3), list(alone).index  # rounded, to keep ties ties
    nearest = sorted(pairs, key=lambda pair: gaps[place(pair[0]), place(pair[1])])
    possible = ((reference.together(*pair), pair) for pair in nearest)
    return dict(islice(((together, pair) for together, pair in possible if together), most))


def _effects(reference: Answers, first: Evidence, known: str) -> dict[str, Outcome]:
    """Returns the outcomes on `first`, by variant: of `known`, and of those that are wrong there. Where the output is
    compared, without its gradient."""
    output = _output_of(first) if first.check.leaves == "output" else None
    alone = {}
    for variant, each in _ask_each(reference, first, output, _possible(reference, first)).items():
        answer = reference.ask(each.check, each.case, variant).result()
        if not answer.failure and (variant == known or any(_wrong(reference, first, answer))):
            alone[variant] = _that_matters(first, answer)
    return alone


def _that_matters(item: Evidence, outcome: Outcome) -> Outcome:
    """Returns an outcome without the gradient, where only the output is compared."""
    return replace(outcome, leaves=select(outcome.leaves, "output")) if item.check.leaves == "output" else outcome


def _both(one: Misconception, other: Misconception) -> Misconception:
    """Joins two misconceptions. If one name begins with the other, returns the one with the shorter name, which covers
    both."""
    if one.name.startswith(other.name):
        return other
    if other.name.startswith(one.name):
        return one
    says = one.says if one.says == other.says else f"Two ideas together give these numbers. {one.says} {other.says}"
    fix = one.fix if one.fix == other.fix else f"{one.fix} {other.fix}".strip()
    return Misconception(f"{one.name}, and {other.name}", says, "", (), fix)


def _gaps(plain: Outcome, alone: Iterable[Outcome], got: Outcome) -> NDArray[np.float64]:
    """Returns, for each pair of ideas, the distance of the learner's leaves from the effects of both at once, in the
    shape (ideas, ideas): a sum of 0 to 1 for each leaf."""
    sides = [{leaf.path: leaf.values for leaf in outcome.leaves} for outcome in (plain, got, *alone)]
    total = np.zeros((len(sides) - 2, len(sides) - 2))
    for path in dict.fromkeys(path for side in sides for path in side):
        base, have, *ideas = (side.get(path) for side in sides)
        total += _leaf_gaps(base, have, ideas)
    return total


def _leaf_gaps(
    base: NDArray[Any] | None, have: NDArray[Any] | None, ideas: Sequence[NDArray[Any] | None]
) -> NDArray[np.float64]:
    """Returns the same for one leaf, which some outcomes may not have."""
    expected, got, *shapes = (None if array is None else array.shape for array in (base, have, *ideas))
    # The shape of the idea that changes it.
    gaps = np.array([[float(got != (two if one == expected else one)) for two in shapes] for one in shapes])
    same = [number for number, shape in enumerate(shapes) if shape == expected == got is not None]
    if not same:
        return gaps
    base_N, have_N, *ideas_N = (
        np.nan_to_num(array.astype(np.complex128)).ravel()
        for array in (base, have, *(ideas[number] for number in same))
        if array is not None
    )
    ideas_IN = np.stack(ideas_N)
    with np.errstate(all="ignore"):
        away = np.linalg.norm(have_N - base_N)
        for number, one_N in zip(same, ideas_N, strict=True):
            terms_I = np.linalg.norm(one_N + ideas_IN - base_N - have_N, axis=1)
            factors_I = np.linalg.norm(one_N * ideas_IN / base_N - have_N, axis=1)
            off_I = np.where(factors_I < terms_I, factors_I, terms_I)
            gaps[number, same] = np.where((off_I < away) & (away < np.inf), off_I / away, off_I > 0)
    return gaps
