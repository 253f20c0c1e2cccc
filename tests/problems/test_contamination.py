"""Problem 84: its scan agrees with a definition that goes through all pairs, its statistics with SciPy and with their
promises over many simulations, and its play shows what leaks."""

import json
import re
import resource
import sys
import time
import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.stats

from problems.p84_contamination.problem import PROBLEM
from tests.conftest import ROOT
from tests.problems.test_plays import shown


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def split(text: str) -> list[str]:
    """The words of a text, letter by letter."""
    kept = [letter if letter.isalnum() else " " for letter in unicodedata.normalize("NFKC", text).lower()]
    return "".join(kept).split()


def defined(documents: list[str], tests: list[tuple[str, str]], n: int, share: float, reach: int):
    """The page's definition, for each test and each document alone."""
    shares, leaks = [0.0] * len(tests), [0] * len(tests)
    texts = [split(document) for document in documents]
    for number, (question, answer) in enumerate((split(question), split(answer)) for question, answer in tests):
        if len(question) < n:
            leaks[number] = -1
            continue
        for text in texts:
            pairs = [
                (j, p)
                for j in range(len(question) - n + 1)
                for p in range(len(text) - n + 1)
                if question[j] == text[p] and question[j : j + n] == text[p : p + n]
            ]
            covered = [any(j <= place < j + n for j, _ in pairs) for place in range(len(question))]
            part = sum(covered) / len(question)
            shares[number] = max(shares[number], part)
            if part >= share:
                follows = [
                    text[p - j + len(question) + more :][: len(answer)] == answer
                    for j, p in pairs
                    for more in range(reach)
                ]
                leaks[number] = max(leaks[number], 2 if answer and any(follows) else 1)
    return shares, leaks


@pytest.mark.fast
@pytest.mark.parametrize("group", ["copies", "forms", "parts", "answers", "odd", "nothing"])
def test_the_scan_is_that_of_the_page(group: str):
    from p84_contamination import scan, words

    family, found = PROBLEM.cases[group], set()
    for seed in range(3):
        sizes = {name: values[seed % len(values)] for name, values in family.sizes.items()}
        case = family.make(sizes, np.random.default_rng(seed))
        documents, tests = (json.loads(case[name]) for name in ("documents", "tests"))
        assert [words(each) for each in documents] == [split(each) for each in documents]
        values = [case[name] for name in ("n", "share", "reach")]
        shares, leaks = scan(iter(documents), tests, *values)
        expected_shares, expected_leaks = defined(documents, tests, *values)
        assert shares.tolist() == pytest.approx(expected_shares)
        assert leaks.tolist() == expected_leaks
        found |= {*expected_leaks}
    assert len(found) > 1 or group == "forms"


@pytest.mark.fast
def test_each_kind_of_a_test_has_the_leak_that_its_name_says():
    from p84_contamination import scan

    expected = {
        "is in no document": 0,
        "is in a document, with its answer": 2,
        "is in a document up to exactly one half": 1,
        "is in a document up to less than one half": 0,
        "is in two documents, each with a part": 0,
        "begins like many others": 0,
        "names its answer, which does not follow": 1,
        "has its answer in reach": 2,
        "has its answer one word too far away": 1,
        "is in no document, but its answer is": 0,
        "is in a document with a word more, and its answer": 2,
        "is shorter than a run": -1,
        "has an answer without words": 1,
    }
    seen = set()
    for group in ("copies", "parts", "answers", "odd"):
        family = PROBLEM.cases[group]
        case = family.make({name: values[0] for name, values in family.sizes.items()}, np.random.default_rng(5))
        documents, tests, kinds = (json.loads(case[name]) for name in ("documents", "tests", "kinds"))
        _, leaks = scan(iter(documents), tests, case["n"], case["share"], case["reach"])
        for kind, leak in zip(kinds, leaks, strict=True):
            assert leak == expected.get(kind, leak), kind
            seen.add(kind)
    assert expected.keys() <= seen


@pytest.mark.fast
def test_an_exposure_of_b_bits_has_a_p_value_of_two_to_the_minus_b():
    from p84_contamination import exposure

    others = np.random.default_rng(0).normal(size=1023)
    bits = exposure(np.sort(others) - 1e-9, others)  # one canary just below each of them
    for b in range(1, 10):
        assert np.mean(np.append(bits, 0.0) >= b) == pytest.approx(2.0**-b, abs=2 / 1024)
    assert exposure(np.array([-9.0]), others)[0] == 10


@pytest.mark.fast
def test_the_order_test_is_students_on_one_side():
    from p84_contamination import order_test

    rng = np.random.default_rng(1)
    for gain in (0.0, 1.0, 9.0):
        canonical, shuffled = rng.normal(gain, 1.0, 12), rng.normal(0.0, 1.0, (12, 5))
        oracle = scipy.stats.ttest_1samp(canonical - shuffled.mean(axis=1), 0.0, alternative="greater").pvalue
        assert order_test(canonical, shuffled) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.fast
def test_holm_keeps_false_accusations_below_the_level_and_finds_more_than_bonferroni():
    from p84_contamination import holm

    rng = np.random.default_rng(2)
    wrong, found, by_bonferroni = 0, 0, 0
    for _ in range(4_000):
        p_values = rng.random(20)
        p_values[:10] *= 0.002  # ten that are contaminated
        adjusted = holm(p_values)
        assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()
        wrong += (adjusted[10:] <= 0.01).any()
        found += np.sum(adjusted[:10] <= 0.01)
        by_bonferroni += np.sum(20 * p_values[:10] <= 0.01)
    assert wrong / 4_000 < 0.01
    assert found > 1.05 * by_bonferroni


def crawl(size: int, planted: dict[int, str], seed: int) -> Iterator[str]:
    """Documents of a few thousand characters each, `size` in all. `planted` are texts by the number of a document."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    vocabulary = np.array(["".join(rng.choice(letters[:14], 2 + place % 8)) for place in range(20_000)])
    sentences = [" ".join(rng.choice(vocabulary, 14)).capitalize() + "." for _ in range(20_000)]
    written = number = 0
    while written < size:
        text = " ".join([sentences[place] for place in rng.integers(0, len(sentences), 40).tolist()])
        text = f"{text} {planted[number]} {text[:40]}" if number in planted else text
        yield text
        written, number = written + len(text), number + 1


@pytest.mark.thorough
def test_a_gigabyte_is_searched_in_one_pass_in_little_memory():
    """5,000 questions, of which 200 have leaked in some form: all are found, and no other. Prints what it took."""
    from p84_contamination import scan

    rng = np.random.default_rng(7)
    source = (word for text in crawl(1_500_000, {}, seed=8) for word in re.findall(r"\w+", text))
    tests = [(" ".join(next(source) for _ in range(30)), f"q{place}") for place in range(5_000)]
    leaked = rng.permutation(5_000)[:200].tolist()
    planted, expected = {}, np.zeros(5_000, int)
    for place, (document, test) in enumerate(zip(rng.permutation(200_000)[:200].tolist(), leaked, strict=True)):
        question, answer = tests[test]
        words = question.split()
        words[12] = words[12] if place % 3 else "changed"
        text = " ".join(words) if place % 2 else f"**{' '.join(words).upper()}**"
        planted[document] = f"{text} Answer: {answer}" if place % 4 else text
        expected[test] = 2 if place % 4 else 1
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    _, leaks = scan(crawl(10**9, planted, seed=9), tests, 8, 0.5, 20)
    seconds, more = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"1 GB: {seconds:.0f} s of computing, {more / 1024:.0f} MiB more memory")
    assert (leaks == expected).all()
    assert more < 100 * 1024
    assert seconds < 900


@pytest.mark.thorough
def test_the_play_shows_the_leaks(fork_server):
    told, lengths, bits, accused, families = shown("84", fork_server)
    assert "tells all of them apart" in told.caption
    alarms, missed = (line.y for line in lengths.lines)
    assert alarms[0] > 90
    assert alarms[-1] == 0
    assert max(missed) == 0
    assert bits.lines[0].y[-1] == pytest.approx(10)
    assert "no other" in accused.caption
    assert "keep to that" in families.caption


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ('unicodedata.normalize("NFKC", text).lower()', "text", 0, "are what they should be"),
        ("ANSWERED if answered else QUESTION", "ANSWERED", 0, "are what they should be"),
        ("if part >= share:", "if part == 1:", 1, "stay near 0"),
        ("ranks = 1 + np", "ranks = np", 2, "none can have more"),
        ("stdtr(S - 1, -t)", "stdtr(S - 1, t)", 3, "should be accused"),
        (
            "np.minimum(1, np.maximum.accumulate(p_values[order] * np.arange(N, 0, -1)))",
            "p_values[order]",
            4,
            "At most",
        ),
    ],
)
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("84", fork_server, find, replace)[exhibit].caption
