"""Probes of problem 84: words, scans with their work and memory, exposures, p-values and alarms. Run in workers."""

import json
import re
import tracemalloc
from collections.abc import Iterable, Iterator
from time import process_time
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p84_contamination.planted import WORDS as PARTS
from problems.p84_contamination.problem import FAMILIES, HALF, HOLM, LEAST, ORDER, SCAN, SPLIT, number_of

NONE, MOST_WORDS = -1, 60
N_MANY, N_LONG, REACH, WORDS_OF_A_QUESTION, WORDS_OF_A_DOCUMENT = 8, 5, 20, 30, 100
# As on the page. Correct programs take 2 to 9 times as long as the split alone, also those that loop in Python, and
# programs that look for each question in each document 170 times.
TIMES = 30
# As on the page. Programs that keep an index of the questions need hardly a byte more for a longer stream. A list of
# its documents takes 0.3 MB more, and their runs 5 MB. Python counts in the process of the submission, so a file that
# is made for it could hide its memory.
MORE = 100_000
FIRST = 0.25  # the part of the long stream with which it is compared
LEVEL = 0.01
WORDS = [first + second for first in PARTS for second in PARTS]


@eager
def splitting(subject: Subject, case: Case) -> Reading:
    """The words of a text as numbers."""
    found = subject.call(SPLIT, case.values["text"], returns=(list | tuple, "a list of strings"))
    if wrong := next((each for each in found if not isinstance(each, str)), None):
        raise BadOutputError(f"`{SPLIT}` returned a list with {described(wrong)}; it must hold strings")
    numbers = [number_of(each) for each in found][:MOST_WORDS]
    return Reading({"split": np.array(numbers + [NONE] * (MOST_WORDS - len(numbers)), np.int64)})


@eager
def scanning(subject: Subject, case: Case) -> Reading:
    """What the documents of a case have of its tests."""
    values = case.values
    documents = json.loads(values["documents"])
    tests = [(question, answer) for question, answer in json.loads(values["tests"])]
    return _scan(subject, iter(documents), tests, values["n"], values["share"], values["reach"])


@eager
def scanning_many(subject: Subject, case: Case) -> Reading:
    """A scan for many questions, in a multiple of the time in which the documents are split."""
    tests, stream = _made(case, N_MANY)
    documents = list(stream())
    alone = min(_seconds(lambda: [re.findall(r"\w+", each.lower()) for each in documents])[0] for _ in range(3))
    seconds, reading = _seconds(lambda: _scan(subject, iter(documents), tests, N_MANY, HALF, REACH))
    if seconds > TIMES * alone:
        raise BadOutputError(
            f"`{SCAN}` takes {seconds / alone:.0f} times as long as splitting the documents into words, for "
            f"{len(tests):,} questions and {len(documents):,} documents; at most {TIMES} times is allowed"
        )
    return reading


@eager
def scanning_long(subject: Subject, case: Case) -> Reading:
    """A scan of a stream, whose documents are made one by one, and of its first part: how much more memory does it
    take?"""
    tests, stream = _made(case, N_LONG)
    most = int(case.values["D"])
    _, first = _peak(subject, tests, stream(int(FIRST * most)))
    reading, whole = _peak(subject, tests, stream())
    if whole > first + MORE:
        raise BadOutputError(
            f"`{SCAN}` holds {whole / 1e6:.1f} MB at once for {most:,} documents, and {first / 1e6:.1f} MB for "
            f"{int(FIRST * most):,}; at most {MORE / 1e6:g} MB more are allowed"
        )
    return reading


@eager
def counting(subject: Subject, case: Case, entry: str) -> Reading:
    """The numbers that an entry returns, one for each of its first argument."""
    values = [np.array(case.values[name], np.float64) for name in subject.problem.entry(entry).arguments]
    return Reading({"numbers": _floats(subject.call(entry, *values), len(values[0]), entry)})


@eager
def ordering(subject: Subject, case: Case) -> Reading:
    """The logarithm of the p-value of an order."""
    p = _p_value(subject, **_copied(case, "canonical", "shuffled"))
    return Reading({"order.log10_p": np.log10(max(p, 10.0**LEAST))})


@eager
def accusing(subject: Subject, case: Case) -> Reading:
    """How many families of clean test sets have an alarm, and how many contaminated test sets are found."""
    rng, N, S, M = (np.random.default_rng(case.values["seed"]), *(int(case.values[name]) for name in ("N", "S", "M")))
    wrong = found = 0
    for _ in range(FAMILIES):
        shuffled, canonical = rng.normal(-300.0, 2.0, (N, S, M)), rng.normal(-300.0, 2.0, (N, S))
        canonical[0] += 8.0  # the first test set was in the training data
        p_values = np.array([_p_value(subject, *each) for each in zip(canonical, shuffled, strict=True)])
        alarms = _floats(subject.call(HOLM, p_values), N, HOLM) <= LEVEL
        found += bool(alarms[0])
        wrong += bool(alarms[1:].any())
    return Reading({"accused.wrong": np.float64(wrong / FAMILIES), "accused.found": np.float64(found / FAMILIES)})


def _scan(subject: Subject, documents: Iterator[str], tests: list[tuple[str, str]], *more: Any) -> Reading:
    found = subject.call(SCAN, documents, tests, *more)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise BadOutputError(f"`{SCAN}` returned {described(found)}; it must return (shares, leaks)")
    leaks = _floats(found[1], len(tests), f"{SCAN}` as `leaks")
    return Reading({"scan.shares": _floats(found[0], len(tests), f"{SCAN}` as `shares"), "scan.leaks": leaks})


def _made(case: Case, n: int) -> tuple[list[tuple[str, str]], Any]:
    """Tests, and a function that makes a stream of documents, of which few have a question."""
    count, most, seed = (int(case.values[name]) for name in ("N", "D", "seed"))
    rng = np.random.default_rng(seed)

    def text(rng: np.random.Generator, length: int) -> str:
        return " ".join(WORDS[place] for place in rng.integers(0, len(WORDS), length).tolist())

    tests = [(text(rng, WORDS_OF_A_QUESTION), f"answer{place}") for place in range(count)]
    planted = {int(rng.integers(most // 4)): int(rng.integers(count)) for _ in range(12)}

    def stream(documents: int = most) -> Iterator[str]:
        rng = np.random.default_rng(seed + 1)
        for place in range(documents):
            question, answer = tests[planted[place]] if place in planted else ("", "")
            yield f"{text(rng, WORDS_OF_A_DOCUMENT)} {question} {answer if place % 2 else ''}"

    return tests, stream


def _peak(subject: Subject, tests: list[tuple[str, str]], documents: Iterable[str]) -> tuple[Reading, int]:
    """What a scan finds, and the most bytes that Python's objects take at once."""
    tracemalloc.start()
    try:
        reading = _scan(subject, iter(documents), tests, N_LONG, HALF, REACH)
        return reading, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _seconds(work: Any) -> tuple[float, Any]:
    start = process_time()
    found = work()
    return process_time() - start, found


def _p_value(subject: Subject, canonical: Any, shuffled: Any) -> float:
    found = subject.call(ORDER, canonical, shuffled)
    if np.shape(found) or not isinstance(found, int | float | np.number):
        raise BadOutputError(f"`{ORDER}` returned {described(found)}; it must return a Python or NumPy number")
    return float(found)


def _copied(case: Case, *names: str) -> dict[str, Any]:
    return {name: np.array(case.values[name], np.float64) for name in names}


def _floats(value: Any, count: int, entry: str) -> Any:
    """Numbers as an array. Raises BadOutputError if they are something else."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        found = None
    if found is None or found.shape != (count,):
        raise BadOutputError(f"`{entry}` returned {described(value)}; it must return ({count},) numbers")
    return found


PROBES = {
    "splitting": splitting,
    "scanning": scanning,
    "scanning_many": scanning_many,
    "scanning_long": scanning_long,
    "counting": counting,
    "ordering": ordering,
    "accusing": accusing,
}
