"""Problem 84: overlap of a test set with a stream of documents, canaries, the order of a test set, many tests."""

import json
import re
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import Words, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance
from problems.p84_contamination.planted import GROUPS, OPENING, Author, test, text

SPLIT, SCAN, EXPOSURE, ORDER, HOLM = "words", "scan", "exposure", "order_test", "holm"
HALF = 0.5
LEAKS = {"-1": "SHORT", "0": "CLEAN", "1": "QUESTION", "2": "ANSWERED"}
FAMILIES = 400
LEAST = -300.0  # the logarithm of a p-value that counts as 0
# Logarithms and means in float64 are right to 1e-12, and p-values of Student's distribution to 1e-10 of themselves,
# which is why their logarithms are compared. Ranks that are off by one change an exposure by 1e-5 or more.
DIGITS = Tolerance(rtol=0.0, atol=1e-7)
# A share of words is a quotient of two small whole numbers.
OF_SHARES = Tolerance(rtol=0.0, atol=1e-9)

# The same words in other forms: capitals, accents in one or two characters, letters and digits of full width, a
# ligature, blanks and stars of markup, and letters of one to four bytes. NFKC makes capitals of № and ™.
FORMS = (
    ("the first number is", "The FIRST number:\u00a0is..."),
    ("café no 42", "Cafe\u0301 No. \uff14\uff12"),
    ("the official flow", "the o\ufb03cial \ufb02ow"),
    ("river of stone", "_river_ of **stone**"),
    ("the king is", "the king is ____."),
    ("x 3 14", "x\u00a0=\u00a03.14"),
    ("don t stop", "don\u2019t -- stop!"),
)
SCRIPTS = "Straße Ñandú Москва 東京 𐐀𐐁 ΑΒΓ ٣ 🎉frog🎉 cake—moon a_b x2_ ＡＢＣ №7 dog™"


def number_of(word: str) -> int:
    """A number that stands for a word in an array."""
    return zlib.crc32(word.encode())


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text, in some of the forms. `marks` of 2 adds other scripts."""
    plain = Author(rng, 4, 4).some(sizes["words"])
    if not sizes["marks"]:
        return {"text": text(plain)}
    forms = [FORMS[place][1] for place in rng.permutation(len(FORMS))[: 3 + 4 * (sizes["marks"] - 1)]]
    found = " ".join([plain[0].upper(), *forms, *plain[1:]])
    return {"text": found if sizes["marks"] == 1 else f"{found} {SCRIPTS}"}


def planted(group: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The tests of a group in any order, and their documents."""
    author = Author(rng, sizes["n"], sizes["reach"])
    kinds = [*GROUPS[group].items()]
    tests, names, documents = [], [], []
    for place in rng.permutation(len(kinds)):
        name, kind = kinds[place]
        some, more = kind(author)
        tests += some
        names += [name] * len(some)
        documents += more
    return {
        "documents": _listed(documents),
        "tests": _listed(tests),
        **{key: sizes[key] for key in ("n", "reach")},
        "share": sizes["percent"] / 100,
        "kinds": _listed(names),
    }


def forms(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Questions whose words have another form in the documents."""
    author = Author(rng, sizes["n"], sizes["reach"])
    tests, documents = [], []
    for place in rng.permutation(len(FORMS)):
        before, (plain, other), after = author.some(sizes["n"]), FORMS[place], author.some(sizes["n"])
        answer = author.answer()
        sides = [[*before, each, *after] for each in (plain, other)]
        first, second = sides if rng.integers(2) else sides[::-1]
        tests.append((f"{text(first).capitalize()}?", text(answer)))
        documents.append(author.document(second, [f"**{answer[0].upper()}**."]))
    return {
        "documents": _listed(documents),
        "tests": _listed(tests),
        **{key: sizes[key] for key in ("n", "reach")},
        "share": HALF,
        "kinds": _listed(["is in a document in another form"] * len(tests)),
    }


def nothing(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One test, and no documents or one."""
    found = planted("copies", sizes, rng)
    chosen = 1 + int(rng.integers(2))
    tests, documents = json.loads(found["tests"]), json.loads(found["documents"])
    return {
        **found,
        "tests": _listed(tests[chosen : chosen + 1]),
        "documents": _listed(documents[chosen : chosen + sizes["N"]]),
        "kinds": _listed(json.loads(found["kinds"])[chosen : chosen + 1]),
    }


def quoted(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Many questions that begin alike and quote what is often quoted, and documents with these beginnings and quotes. A
    few of the questions have leaked."""
    n, author = sizes["n"], Author(rng, sizes["n"], sizes["reach"])
    quotes = [author.some(n + 2) for _ in range(8)]
    tests, documents, names = [], [], []
    for place in range(sizes["N"]):
        quote = quotes[int(rng.integers(len(quotes)))]
        question, answer = [*OPENING[:n], *author.some(author.length - 2 * n), *quote], [f"a{place}"]
        tests.append(test(question, answer))
        leaked = place % (sizes["N"] // 6) == 1
        names.append("is in a document" if leaked else "shares its first words and a quote with others")
        part = [*question, *answer] if leaked else [*OPENING[:n], *author.some(20)]
        documents.append(author.document(part))
        documents.append(author.document(author.some(12), quotes[int(rng.integers(len(quotes)))], answer))
    return {
        "documents": _listed([documents[place] for place in rng.permutation(len(documents))]),
        "tests": _listed(tests),
        **{key: sizes[key] for key in ("n", "reach")},
        "share": HALF,
        "kinds": _listed(names),
    }


def seeded(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**sizes, "seed": int(rng.integers(1, 1 << 30))}


def losses(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Losses of canaries and of others, in any order: one canary below all others, one above all, one at the mean, one
    other that lies above that by less than float32 can tell, and with `levels` some that are equal."""
    import numpy as np

    others = rng.permutation(np.append(rng.normal(40.0, 4.0, sizes["M"] - 1), 40.0 + 1e-7))
    canaries = np.append(rng.normal(36.0, 4.0, max(0, sizes["N"] - 3)), [10.0, 80.0, 40.0])[-sizes["N"] :]
    if sizes["levels"]:
        others, canaries = np.round(others / 2) * 2, np.round(canaries / 2) * 2
    return {"canaries": rng.permutation(canaries), "others": others}


def orders(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Log-probabilities of shards of different lengths. The model prefers their own order by `gain` tenths of the
    deviation among random ones."""
    S, M = sizes["S"], sizes["M"]
    means = -rng.uniform(200.0, 900.0, S)
    shuffled = means[:, None] + rng.normal(0.0, 2.0, (S, M))
    return {"canonical": means + rng.normal(0.2 * sizes["gain"], 2.0, S), "shuffled": shuffled}


def several(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """p-values of which some are small, in any order. With `ties` some are equal, and one is 1."""
    import numpy as np

    N, small = sizes["N"], sizes["N"] // 2
    found = np.append(rng.uniform(0.001, 0.03, small), rng.uniform(0.05, 0.99, N - small))
    if sizes["ties"]:
        found[1], found[-1] = found[0], 1.0
    return {"p_values": rng.permutation(found)}


def _listed(values: list[Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a case, without its texts: a wrong value names the test that it is about."""
    counts = {name: f"{len(json.loads(values[name]))} of them" for name in ("documents", "tests")}
    return {**counts, **{name: values[name] for name in ("n", "share", "reach")}}


def words_of(case: Case) -> Words:
    """What the numbers of words mean: all runs of letters that someone could take for a word."""
    import unicodedata

    found = {-1: "no further word"}
    raw = str(case.values["text"])
    patterns = (r"\w+", r"\S+", "[A-Za-z0-9]+", r"[\w']+", r"[^\W\d_]+", r"[^\W_]+", ".")
    for each in (raw, *(unicodedata.normalize(form, raw) for form in ("NFC", "NFD", "NFKC", "NFKD"))):
        for version in (each, each.lower(), each.casefold()):
            for pattern in patterns:
                found.update((number_of(word), repr(word)) for word in re.findall(pattern, version))
    return Words(lambda number: found.get(number, "another text"))


def test_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a test of which a wrong share or a wrong leak is reported."""
    if not difference.index or "tests" not in case.values:
        return ""
    place = difference.index[0]
    question, answer = json.loads(case.values["tests"])[place]
    kind = json.loads(case.values["kinds"])[place]
    name, values = difference.path.removeprefix("scan."), (difference.got, difference.expected)
    got, expected = (LEAKS.get(value, value) if name == "leaks" else value for value in values)
    return (
        f"test {place}, whose question {kind}: `{name}` has {got}, expected {expected} (question: "
        f"{question!r}, answer: {answer!r}, n = {case.values['n']}, reach = {case.values['reach']})"
    )


def bits_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a wrong exposure or adjusted p-value."""
    if not difference.index:
        return ""
    name, given = (HOLM, "p_values") if "p_values" in case.values else (EXPOSURE, "canaries")
    value = float(case.values[given][difference.index[0]])
    what = "p-value" if name == HOLM else "loss"
    return f"for the {what} {value:.6g}, `{name}` returned {difference.got}, expected {difference.expected}"


def p_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a wrong p-value, of which the logarithm is compared."""
    values = (float(each) for each in (difference.got, difference.expected))
    got, expected = ("0" if each <= LEAST else f"{10**each:.4g}" for each in values)
    return f"`{ORDER}` returned {got}, expected {expected}"


def alarms_in_words(case: Case, difference: Difference) -> str:
    """A sentence on how often sets of tests raise an alarm."""
    kind = "contaminated test sets that are found" if difference.path.endswith("found") else "families with a false one"
    return (
        f"in {FAMILIES} simulated families of {case.values['N']} test sets, with adjusted p-values of 0.01 or less as "
        f"alarms, the share of {kind} is {difference.got}, expected {difference.expected}"
    )


def scans(name: str, points: int, cases: str, leaves: str = "scan") -> Check:
    return Check(
        name, points, "scanning", leaves=leaves, cases=cases, tolerance=OF_SHARES, in_words=test_in_words,
        calls=(SCAN,),
    )  # fmt: skip


def split(name: str, points: int, cases: str) -> Check:
    return exact(name, points, "splitting", "split", cases=cases, words=words_of, calls=(SPLIT,))


def numbers(name: str, points: int, entry: str, cases: str) -> Check:
    return Check(
        name, points, "counting", {"entry": entry}, "numbers", cases, tolerance=DIGITS, in_words=bits_in_words,
        calls=(entry,),
    )  # fmt: skip


def order(name: str, points: int, cases: str) -> Check:
    return Check(
        name, points, "ordering", leaves="order", cases=cases, tolerance=DIGITS, in_words=p_in_words, calls=(ORDER,)
    )


def group(name: str, draws: int = 2, percent: int = 50) -> Cases:
    sizes = {"n": (4, 5), "reach": (6, 9), "percent": (percent,)}
    return Cases(partial(planted, name), sizes, draws=draws, show=shown)


PROBLEM = Problem(
    title="Contamination",
    minutes=150,
    builds_on=(55, 80),
    entries=(
        Entry(SPLIT, ("text",)),
        Entry(SCAN, ("documents", "tests", "n", "share", "reach"), returns=("shares", "leaks")),
        Entry(EXPOSURE, ("canaries", "others")),
        Entry(ORDER, ("canonical", "shuffled")),
        Entry(HOLM, ("p_values",)),
    ),
    cases={
        "texts": Cases(texts, {"words": (4, 7), "marks": (0, 1, 1)}, draws=4),
        "scripts": Cases(texts, {"words": (3,), "marks": (2,)}, draws=2, covers=("text",)),
        "copies": group("copies"),
        "forms": Cases(forms, {"n": (3, 4), "reach": (4,)}, draws=2, show=shown),
        "parts": group("parts", draws=3),
        # 0.56 * 25 is more than 14 in float64, but 14 / 25 is 0.56.
        "just": Cases(partial(planted, "just"), {"n": (5,), "reach": (6,), "percent": (56,)}, draws=1, show=shown),
        "answers": group("answers", draws=3, percent=75),
        "odd": group("odd"),
        "nothing": Cases(
            nothing, {"n": (4,), "reach": (1,), "percent": (100,), "N": (1, 0)}, draws=4, show=shown, covers=("one",)
        ),
        "quoted": Cases(quoted, {"N": (150,), "n": (8,), "reach": (30,)}, draws=1, show=shown),
        "many": Cases(seeded, {"N": (800,), "D": (2_000,)}, draws=1),
        "long": Cases(seeded, {"N": (10,), "D": (400,)}, draws=1),
        "losses": Cases(losses, {"N": (5, 7), "M": (12, 31), "levels": (0,)}, draws=2, covers=("coprime",)),
        "tied losses": Cases(losses, {"N": (6,), "M": (40,), "levels": (1,)}, draws=2),
        "one loss": Cases(losses, {"N": (1, 2), "M": (1,), "levels": (0, 1)}, draws=3),
        "many losses": Cases(losses, {"N": (50,), "M": (100_000,), "levels": (0,)}, draws=1),
        "orders": Cases(orders, {"S": (5, 9), "M": (4, 7), "gain": (8, 0)}, draws=3),
        "few orders": Cases(orders, {"S": (2,), "M": (1, 3), "gain": (5,)}, draws=2),
        "sure orders": Cases(orders, {"S": (30, 50), "M": (8,), "gain": (60,)}, draws=2),
        "several": Cases(several, {"N": (5, 8), "ties": (0,)}, draws=2),
        "tied": Cases(several, {"N": (6, 9), "ties": (1,)}, draws=2),
        "one test": Cases(several, {"N": (1,), "ties": (0,)}, draws=1),
        "families": Cases(seeded, {"N": (20,), "S": (8,), "M": (6,)}, draws=1),
    },
    checks=(
        split("words", 2, "texts"),
        split("words of all scripts", 1, "scripts"),
        scans("copies", 2, "copies"),
        scans("copies in another form", 1, "forms"),
        scans("shares of questions", 2, "parts", "scan.shares"),
        scans("leaked questions", 2, "parts", "scan.leaks"),
        scans("a share that is just reached", 1, "just"),
        scans("leaked answers", 3, "answers"),
        scans("short questions and missing words", 1, "odd"),
        scans("one test", 1, "nothing"),
        scans("false alarms", 2, "quoted"),
        exact(
            "work of many questions", 2, "scanning_many", "scan", cases="many", calls=(SCAN,), cpu_seconds=3,
            advice="Do not look for each question in each document. A dictionary from the runs of all questions to "
            "their places answers for all of them at once.",
        ),
        exact(
            "memory of a long stream", 2, "scanning_long", "scan", cases="long", calls=(SCAN,),
            advice="Index the questions, not the documents, and forget each document before you take the next one.",
        ),
        numbers("exposure", 2, EXPOSURE, "losses"),
        numbers("equal losses", 1, EXPOSURE, "tied losses"),
        numbers("one other loss", 1, EXPOSURE, "one loss"),
        numbers("exposure among 100,000", 1, EXPOSURE, "many losses"),
        order("order", 2, "orders"),
        order("two shards", 1, "few orders"),
        order("tiny p-values", 1, "sure orders"),
        numbers("many tests", 2, HOLM, "several"),
        numbers("equal p-values", 1, HOLM, "tied"),
        numbers("a single test", 1, HOLM, "one test"),
        Check("false accusations", 2, "accusing", leaves="accused", cases="families", tolerance=DIGITS,
              in_words=alarms_in_words, calls=(ORDER, HOLM)),
    ),
)  # fmt: skip
