"""Problem 84, played: questions that leaked into a crawl, canaries, and test sets that a model has seen in their order.

The models count words and digits, so they know what was in their text.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Table
from harness.data.pocket import stories
from problems.stage.weights import FIRST_VALIDATION

CRAWL, TESTS, OTHERS, REACH, HALF = 200, 96, 400, 12, 0.5
NAMES = "Ann Ben Cleo Dan Eve Finn Gus Hana Ivo June Kai Lea Max Nora Omar Pia Ravi Sue Tom Uma".split()
THINGS = "apples balls cakes dolls eggs figs grapes hats jars kites lamps maps nuts pens rings seeds".split()
PLACES = "market school beach farm park station library harbor".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
FORMS = (
    "{0} has {a} {things} and buys {b} more at the {place} on {day}. Then {0} gives {c} of them to {1}, who has none. "
    "How many {things} does {0} have now?",
    "On {day} {0} and {1} count the {things} at the {place}. {0} finds {a} of them, {1} finds {b}, and {c} are broken. "
    "How many whole {things} are there?",
    "At the {place} a box holds {a} {things}. {0} puts {b} into it on {day} before {1} takes {c} out of it again. How "
    "many {things} are in the box?",
)
NS, USUAL = (2, 3, 4, 5, 6, 8, 10, 13), 8
KINDS = (
    "in no document",
    "there with its answer",
    "there in capitals",
    "there, a word changed",
    "there without answer",
    "absent, but its answer",
)
RIGHT = (0, 2, 2, 2, 1, 0)
COPIES, CODES, DIGITS = (0, 1, 2, 4, 8, 16), 1_023, 9
SETS, SEEN, SHARDS, ITEMS, ORDERS, LEVEL = 12, (3, 8), 8, 10, 8, 0.01


def play(module: LearnerModule) -> Exhibits:
    """What a scan reports of planted leaks and for each n, exposures, and which test sets are accused."""
    rng = random.Random(84)  # noqa: S311
    tests, documents = crawl(rng)
    yield reported(module, tests, documents)
    yield for_each_n(module, tests, documents)
    yield exposures(module, rng)
    yield from accusations(module, rng)


def problem(rng: random.Random) -> tuple[str, str]:
    """A question about numbers, and its answer."""
    a, b, c = rng.randrange(20, 60), rng.randrange(20, 60), rng.randrange(2, 19)
    fields = {"things": rng.choice(THINGS), "place": rng.choice(PLACES), "day": rng.choice(DAYS)}
    return rng.choice(FORMS).format(*rng.sample(NAMES, 2), a=a, b=b, c=c, **fields), str(a + b - c)


def crawl(rng: random.Random) -> tuple[list[tuple[str, str]], list[str]]:
    """Tests, and documents: stories, other questions of the same forms, and something of each test, by kind."""
    tests, documents = [problem(rng) for _ in range(TESTS)], list(stories(CRAWL))
    for _ in range(OTHERS):
        question, answer = problem(rng)
        documents.append(f"{question} The answer is {answer}.")
    for number, (question, answer) in enumerate(tests):
        words = question.split()
        changed = " ".join([*words[:11], "purple", *words[12:]])
        document = (
            "",
            f"Q: {question} A: {answer}",
            f"**{question.upper()}**\n\n_{answer}_",
            f"{changed}\nThe answer is {answer}",
            f"Who can help me? {question} ____ I do not know",
            f"Lucky number: {answer}",
        )[number % len(KINDS)]
        documents.append(f"Welcome to our page. {document}. Read more here!")
    rng.shuffle(documents)
    return tests, documents


def scanned(module: LearnerModule, tests: Sequence[tuple[str, str]], documents: Sequence[str], n: int) -> list[int]:
    """The leaks that the learner's scan reports."""
    _, leaks = module.scan(iter(documents), list(tests), n, HALF, REACH)
    return [int(leak) for leak in leaks]


def reported(module: LearnerModule, tests: Sequence[tuple[str, str]], documents: Sequence[str]) -> Table:
    """What is reported of each kind."""
    leaks = scanned(module, tests, documents, USUAL)
    rows, right = [], 0
    for kind, name in enumerate(KINDS):
        found = leaks[kind :: len(KINDS)]
        counts = Counter(found)
        rows.append((name, *(str(counts[leak]) for leak in (0, 1, 2))))
        right += counts[RIGHT[kind]]
    return Table(
        f"{len(tests)} questions and {len(documents)} documents, with n = {USUAL}",
        ("the question is", "clean", "question leaked", "with its answer"),
        tuple(rows),
        "Your scan tells all of them apart: copies in other forms are found, and an answer alone is nothing."
        if right == len(tests)
        else f"{right} of {len(tests)} are what they should be: the first and the last row clean, the fifth leaked "
        "without its answer, all others with it.",
    )


def for_each_n(module: LearnerModule, tests: Sequence[tuple[str, str]], documents: Sequence[str]) -> Lines:
    """How many clean questions are reported and how many leaked ones are missed, for runs of each length."""
    alarms, missed = [], []
    clean = [number for number in range(len(tests)) if RIGHT[number % len(KINDS)] == 0]
    leaked = [number for number in range(len(tests)) if RIGHT[number % len(KINDS)] > 0]
    for n in NS:
        leaks = scanned(module, tests, documents, n)
        alarms.append(100 * float(np.mean([leaks[number] > 0 for number in clean])))
        missed.append(100 * float(np.mean([leaks[number] <= 0 for number in leaked])))
    falls = alarms[0] > 50 and max(alarms[-3:]) < 10 and max(missed) < 5
    return Lines(
        "The same scan, with runs of n words",
        (Line("clean questions that are reported", NS, alarms), Line("leaked questions that are missed", NS, missed)),
        f"With n = {NS[0]}, {alarms[0]:.0f}% of the clean questions are reported: short runs of words are everywhere. "
        f"With n = {USUAL}, {alarms[NS.index(USUAL)]:.0f}% are."
        if falls
        else "The first curve should fall from nearly all to nearly none as n grows, and the second one stay near 0. "
        f"Yours are {alarms[0]:.0f}% to {alarms[-1]:.0f}%, and up to {max(missed):.0f}%.",
        x="n",
        y="%",
    )


def exposures(module: LearnerModule, rng: random.Random) -> Lines:
    """The exposure of canaries that were in a model's text once or several times."""
    codes = ["".join(rng.choice("0123456789") for _ in range(DIGITS)) for _ in range(CODES + len(COPIES))]
    canaries, others = codes[: len(COPIES)], codes[len(COPIES) :]
    copies = [code for code, count in zip(canaries, COPIES, strict=True) for _ in range(count)]
    noise = ["".join(rng.choice("0123456789") for _ in range(DIGITS)) for _ in range(150)]
    counts = letters([*copies, *noise])
    losses = [np.array([loss(code, counts) for code in each]) for each in (canaries, others)]
    bits = np.asarray(module.exposure(*losses), np.float64).ravel()
    most = math.log2(CODES + 1)
    sound = len(bits) == len(COPIES) and bits[-1] > most - 0.5 and bits[0] < most - 3 and max(bits) <= most + 1e-6
    return Lines(
        f"Canaries of {DIGITS} digits in the text of a model that counts triples of digits",
        (
            Line("your exposure", COPIES[: len(bits)], bits[: len(COPIES)].tolist()),
            Line("the most that can be shown", COPIES, [most] * len(COPIES)),
        ),
        f"Each canary is compared with {CODES:,} other codes. One that the model never saw has {bits[0]:.1f} bits, one "
        f"that it saw {COPIES[-1]} times has {bits[-1]:.1f}."
        if sound
        else f"A canary that was there {COPIES[-1]} times is the likeliest of all {CODES + 1:,}: it should have "
        f"{most:.0f} bits, and none can have more. One that was not there should have few.",
        x="times in the text",
        y="bits",
    )


def letters(codes: Iterable[str]) -> Counter[str]:
    """How often each pair and each triple of digits is in some codes. A code begins with two stars."""
    counts: Counter[str] = Counter()
    for code in codes:
        padded = f"**{code}"
        counts.update(padded[place : place + 3] for place in range(len(code)))
        counts.update(padded[place : place + 2] for place in range(len(code)))
    return counts


def loss(code: str, counts: Counter[str]) -> float:
    padded = f"**{code}"
    return -sum(
        math.log((counts[padded[place : place + 3]] + 0.1) / (counts[padded[place : place + 2]] + 1.0))
        for place in range(len(code))
    )


def accusations(module: LearnerModule, rng: random.Random) -> Exhibits:
    """The p-values of test sets, of which a model that counts words has seen some in their order."""
    sentences = iter(middle_sentences())
    sets = [[[next(sentences) for _ in range(ITEMS)] for _ in range(SHARDS)] for _ in range(SETS)]
    shuffled_once = [[rng.sample(shard, ITEMS) for shard in each] for each in sets]
    text = [  # the model knows all sentences, and the order of two sets
        " ".join(sentence for shard in (sets if number in SEEN else shuffled_once)[number] for sentence in shard)
        for number in range(SETS)
    ]
    counts = words_of([*stories(CRAWL), *text])
    p_values = []
    for each in sets:
        own = np.array([log_probability(shard, counts) for shard in each])
        random_orders = [[rng.sample(shard, ITEMS) for _ in range(ORDERS)] for shard in each]
        others = np.array([[log_probability(order, counts) for order in orders] for orders in random_orders])
        p_values.append(float(module.order_test(own, others)))
    adjusted = np.asarray(module.holm(np.array(p_values)), np.float64).ravel().tolist()
    accused = {number for number, value in enumerate(adjusted) if value <= LEVEL}
    yield Table(
        f"{SETS} test sets, of which a model has read {len(SEEN)} in their order",
        ("test set", "p-value", "adjusted", "at 1%", "truth"),
        tuple(
            (
                str(number + 1),
                f"{p_value:.2g}",
                f"{value:.2g}",
                "accused" if number in accused else "–",
                "seen in this order" if number in SEEN else "seen in another order",
            )
            for number, (p_value, value) in enumerate(zip(p_values, adjusted, strict=False))
        ),
        "Both are accused, and no other. All sentences were in its text; it is the order that gives these two away."
        if accused == set(SEEN)
        else f"Sets {SEEN[0] + 1} and {SEEN[1] + 1} should be accused, and no other. Yours: "
        + (", ".join(str(number + 1) for number in sorted(accused)) or "none")
        + ".",
    )
    yield families(module)


def middle_sentences() -> Iterator[str]:
    """Sentences from the middle of stories: they begin in different ways."""
    for story in stories(SETS * SHARDS * ITEMS, start=FIRST_VALIDATION):
        parts = re.findall(r"[A-Z][^.!?]+[.!?]", story)[2:-1]
        if parts:
            yield parts[0]
            yield parts[-1]


def words_of(texts: Iterable[str]) -> Counter[tuple[str, ...]]:
    """How often each word, pair and triple of words is in some texts."""
    counts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        words = text.split()
        counts.update((word,) for word in words)
        counts.update(pairwise(words))
        counts.update(zip(words, words[1:], words[2:], strict=False))
    return counts


def log_probability(sentences: Sequence[str], counts: Counter[tuple[str, ...]]) -> float:
    """The log-probability of a text by a mixture of triples, pairs and single words."""
    words, total = " ".join(sentences).split(), 0.0
    for first, second, third in zip(words, words[1:], words[2:], strict=False):
        three = counts[first, second, third] / max(1, counts[first, second])
        two = counts[second, third] / max(1, counts[second,])
        total += math.log(0.6 * three + 0.3 * two + 0.1 * (counts[third,] + 1) / 50_000)
    return total


def families(module: LearnerModule) -> Bars:
    """How many families of clean test sets have an alarm, with and without the learner's correction."""
    rng: Any = np.random.default_rng(84)
    p_values = rng.random((400, 40))
    with_it = float(np.mean([(np.asarray(module.holm(each.copy())) <= LEVEL).any() for each in p_values]))
    without = float(np.mean((p_values <= LEVEL).any(axis=1)))
    return Bars(
        "400 families of 40 test sets, all clean: how many have an accusation at 1%?",
        (Bar("without a correction", 100 * without), Bar("with yours", 100 * with_it)),
        "%",
        "One family of a hundred may have one, and yours keep to that."
        if with_it < 0.03
        else "At most one family of a hundred may have one.",
    )
