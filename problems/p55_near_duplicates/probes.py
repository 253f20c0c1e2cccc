"""Probes of problem 55: shingles, signatures, pairs, clusters and the texts that stay. Run in workers."""

from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p55_near_duplicates.problem import number_of

NONE, SHINGLES, PAIRS, PLANTED = -1, 80, 400, 40
# As on the page, of the CPU. The reference takes 0.15 s for the most texts, programs that compare all of them in Python
# minutes. The judge limits the time of a whole probe; these limits end it earlier, with a sentence.
SECONDS, GROWTH, ROWS, BANDS = 1.0, (1_000, 4_000, 12_000), 2, 8


@eager
def shingling(subject: Subject, case: Case) -> Reading:
    """The shingles of a text as numbers, in alphabetical order."""
    found = subject.call(
        "shingles", case.values["text"], case.values["n"], returns=(set | frozenset, "a set of strings")
    )
    if wrong := next((each for each in found if not isinstance(each, str)), None):
        raise BadOutputError(f"`shingles` returned a set with {described(wrong)}; it must hold strings")
    numbers = [number_of(each) for each in sorted(found)][:SHINGLES]
    return Reading({"shingles": np.array(numbers + [NONE] * (SHINGLES - len(numbers)), np.int64)})


@eager
def signing(subject: Subject, case: Case) -> Reading:
    """The signature of a set of shingles."""
    rows, (a, b) = str(case.values["shingles"]).split("\n"), _hashes(case)
    found = np.asarray(subject.call("minhash", {row for row in rows if row}, a, b))
    if found.shape != a.shape or found.dtype.kind not in "iu":
        raise BadOutputError(f"`minhash` returned {described(found)}; it must return ({len(a)},) integers")
    return Reading({"signature": found.astype(np.int64)})


@eager
def curve(subject: Subject, case: Case) -> Reading:
    """The probability of a pair at each similarity."""
    values = case.values
    similarity = np.array(values["similarity"], np.float64)
    found = np.asarray(
        subject.call("found_probability", similarity, values["num_bands"], values["rows_per_band"]), np.float64
    )
    if found.shape != similarity.shape:
        raise BadOutputError(
            f"`found_probability` returned {described(found)}; it must return ({len(similarity)},) floats"
        )
    return Reading({"probability": found})


@eager
def bucketing(subject: Subject, case: Case) -> Reading:
    """Which two texts are a pair."""
    signatures: Any = case.values["signatures"]
    found = np.zeros((len(signatures), len(signatures)), np.int32)
    for left, right in _pairs(subject, signatures.copy(), case.values["num_bands"]):
        found[left, right] = 1
    return Reading({"pairs.pair": found})


@eager
def bucketing_many(subject: Subject, case: Case) -> Reading:
    """The pairs of many texts, of which few have a partner, after those of fewer."""
    rng = np.random.default_rng(int(case.values["seed"]))
    signatures = rng.integers(0, 1 << 31, (int(case.values["N"]), ROWS * BANDS))
    for left, right in rng.permutation(len(signatures))[: 2 * PLANTED].reshape(-1, 2):
        band = ROWS * int(rng.integers(BANDS))
        signatures[left, band : band + ROWS] = signatures[right, band : band + ROWS]
    found = _growing(lambda D: _pairs(subject, signatures[:D], BANDS), len(signatures), "candidate_pairs", "texts")
    rows = (sorted(found) + [(NONE, NONE)] * PAIRS)[:PAIRS]
    return Reading({"pairs.sorted": np.array(rows, np.int32)})


@eager
def clustering(subject: Subject, case: Case) -> Reading:
    """The label of each text."""
    rows = str(case.values["pairs"]).split("\n")
    pairs = [(int(left), int(right)) for left, right in map(str.split, rows)]
    return Reading({"clusters": _labels(subject, pairs, int(case.values["num_texts"]))})


@eager
def clustering_many(subject: Subject, case: Case) -> Reading:
    """The labels of ten chains of texts, whose pairs are in any order, and of two chains whose last pair comes first or
    last, after those of shorter ones."""
    rng = np.random.default_rng(int(case.values["seed"]))

    def of_chain(D: int) -> Any:
        names, places = rng.permutation(D), [place for place in rng.permutation(D - 1) if place % (D // 10)]
        return _labels(subject, [tuple(sorted(map(int, names[place : place + 2]))) for place in places], D)

    def of_two(places: Callable[[int], Iterable[int]]) -> Callable[[int], Any]:
        return lambda D: _labels(subject, [(place, place + 1) for place in places(D - 1) if place != D // 2], D)

    most = int(case.values["N"])
    return Reading(
        {
            "clusters.any_order": _growing(of_chain, most, "clusters", "texts"),
            "clusters.last_pair_first": _growing(
                of_two(lambda D: reversed(range(D))), most, "clusters", "texts in chains whose last pair comes first"
            ),
            "clusters.last_pair_last": _growing(
                of_two(range), most, "clusters", "texts in chains whose last pair comes last"
            ),
        }
    )


@eager
def keeping(subject: Subject, case: Case) -> Reading:
    """Which texts stay, given in this order and in the opposite one."""
    values = case.values
    texts = str(values["texts"]).split("\n")

    def kept(order: list[int]) -> Any:
        given = [texts[place] for place in order]
        found = subject.call(
            "deduplicate", given, values["n"], *_hashes(case), values["num_bands"], values["threshold"],
            returns=(list | tuple | np.ndarray, "a list of indices"),
        )  # fmt: skip
        stays = np.zeros(len(texts), np.int32)
        for place in map(int, found):
            if not 0 <= place < len(texts):
                raise BadOutputError(f"`deduplicate` returned the index {place}; there are {len(texts)} texts")
            stays[order[place]] = 1
        if list(map(int, found)) != sorted(set(map(int, found))):
            raise BadOutputError("`deduplicate` returned indices that do not ascend")
        return stays

    forward = list(range(len(texts)))
    return Reading(
        {
            "texts.kept": kept(forward),
            "texts.kept_in_the_opposite_order": kept(forward[::-1]),
            "texts.kept_alone": kept(forward[:1]),
        }
    )


def _hashes(case: Case) -> tuple[Any, Any]:
    return np.array(case.values["a"], np.int64), np.array(case.values["b"], np.int64)


def _pairs(subject: Subject, signatures: Any, num_bands: Any) -> set[tuple[int, int]]:
    """What `candidate_pairs` returned. Raises BadOutputError if it is not a set of pairs (i, j) of texts with i < j."""
    found = subject.call("candidate_pairs", signatures, num_bands, returns=(set | frozenset, "a set of pairs"))
    for each in found:
        if not isinstance(each, tuple) or len(each) != 2 or not 0 <= each[0] < each[1] < len(signatures):
            raise BadOutputError(
                f"`candidate_pairs` returned a set with {each!r}; it must hold tuples (i, j) with 0 <= i < j < "
                f"{len(signatures)}"
            )
    return {(int(left), int(right)) for left, right in found}


def _labels(subject: Subject, pairs: list[Any], num_texts: int) -> Any:
    found = subject.call("clusters", pairs, num_texts, returns=(Iterable, "a list of labels"))
    labels = np.array([int(each) for each in found], np.int32)
    if len(labels) != num_texts:
        raise BadOutputError(
            f"`clusters` returned {len(labels)} labels; it must return one for each of {num_texts} texts"
        )
    return labels


def _growing(work: Callable[[int], Any], most: int, name: str, unit: str) -> Any:
    """What `work(most)` returns, after smaller sizes. Raises BadOutputError if one of them takes long."""
    for size in sorted({*GROWTH, most}):
        start = process_time()
        found = work(size)
        if process_time() - start > SECONDS:
            raise BadOutputError(f"`{name}` takes more than {SECONDS:g} s of computing for {size:,} {unit}")
    return found


PROBES = {
    "shingling": shingling,
    "signing": signing,
    "curve": curve,
    "bucketing": bucketing,
    "bucketing_many": bucketing_many,
    "clustering": clustering,
    "clustering_many": clustering_many,
    "keeping": keeping,
}
