"""Tests of problem 84 and the documents that have something of them: what each kind plants, from plain copies to what
only looks like one.

Questions, documents and fillers draw from the same few words, so single words and short runs of them are everywhere.
Answers have words of their own, which no filler contains.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

WORDS = """
the of and a to in is was for on that with as by at from this were which or had first one their its new after two who
river king light stone north paper green water school number
""".split()
ANSWERS = """
amber basil cedar delta ember fjord grape hazel ivory jumbo karma lemon maple nylon olive pearl quartz raven sable
topaz ultra vivid wafer xenon yacht zebra agate birch coral daisy elder flint gecko heron iris jade koala lilac mango
nectar otter panda quince robin saffron tulip umber violet walnut zinnia acorn badger camel dahlia emu
""".split()
OPENING = "read the question and choose one of the".split()

Test = tuple[str, str]
Planted = tuple[list[Test], list[str]]
"""Tests, and documents that belong to them in this order."""


class Author:
    """Writes questions, answers and documents for runs of n words.

    Attributes:
        rng: A NumPy generator.
        n: The length of a run.
        reach: How far behind a question its answer may begin.
        length: The words of a question, four runs.
    """

    def __init__(self, rng: Any, n: int, reach: int) -> None:
        self.rng, self.n, self.reach, self.length = rng, n, reach, 4 * n
        self.left = [str(word) for word in rng.permutation(ANSWERS)]

    def some(self, count: int) -> list[str]:
        """Words for a question or between two texts."""
        return [WORDS[place] for place in self.rng.integers(0, len(WORDS), count)]

    def question(self) -> list[str]:
        return self.some(self.length)

    def answer(self, count: int = 1) -> list[str]:
        """Words that no other text has."""
        return [self.left.pop() for _ in range(count)]

    def document(self, *parts: Sequence[str]) -> str:
        """A text with these words, between others."""
        around = [self.some(int(self.rng.integers(2, 7))) for _ in range(2)]
        return text([*around[0], *(word for part in parts for word in part), *around[1]])

    def far(self) -> list[str]:
        """As many words as an answer may not be behind."""
        return self.some(self.reach + 3)


def text(words: Sequence[str]) -> str:
    return " ".join(words)


def test(question: Sequence[str], answer: Sequence[str]) -> Test:
    return text(question), text(answer)


def with_documents(make: Callable[[Author, list[str], list[str]], list[str]], answer_words: int = 1) -> Any:
    """A kind with one test, whose documents `make` returns for the words of its question and of its answer."""

    def kind(author: Author) -> Planted:
        question, answer = author.question(), author.answer(answer_words)
        return [test(question, answer)], make(author, question, answer)

    return kind


def run_twice(a: Author) -> Planted:
    """A question that ends with the run with which it begins, and a document that has this run once."""
    question = a.question()
    question[-a.n :] = question[: a.n]
    return [test(question, a.answer())], [a.document(question[: a.n])]


def shared_beginning(a: Author) -> Planted:
    """Two questions that differ in their second half; a document has the second one."""
    question, answers = a.question(), [a.answer(), a.answer()]
    other = [*question[: a.length // 2], *a.some(a.length // 2)]
    return [test(question, answers[0]), test(other, answers[1])], [a.document(other, answers[1])]


def same_question(a: Author) -> Planted:
    """A question twice in the test set, with two answers; a document has one of them."""
    question, answers = a.question(), [a.answer(), a.answer()]
    return [test(question, answers[0]), test(question, answers[1])], [a.document(question, answers[0])]


def inside_question(a: Author, answer_again: bool) -> Planted:
    """A question that lists its options, of which one is the answer."""
    question, options = a.question(), a.answer(3)
    question[-6:] = ["or", options[0], "or", options[1], "or", options[2]]
    again = [options[1]] if answer_again else []
    return [test(question, [options[1]])], [a.document(question, again, a.far())]


def part_of_a_word(a: Author) -> Planted:
    question, (answer, other) = a.question(), a.answer(2)
    return [test(question, [answer])], [a.document(question, [f"{answer}s", f"un{answer}", answer[:-1], other])]


def number_in_a_number(a: Author) -> Planted:
    question = a.question()
    return [test(question, ["7"])], [a.document(question, ["17", "is", "70"])]


def across(a: Author, q: list[str], answer: list[str]) -> list[str]:
    """The end of one document and the beginning of the next one."""
    cut = 2 * a.n - 1
    return [text([*a.some(5), *q[:cut]]), text([*q[cut:], *a.some(2), *answer])]


def every_run_broken(a: Author, q: list[str], answer: list[str]) -> list[str]:
    """All runs of n - 1 words, and none of n."""
    changed = [f"{word}x" if place % a.n == a.n - 1 else word for place, word in enumerate(q)]
    return [a.document(changed, answer)]


def one_word_changed(a: Author, q: list[str], answer: list[str]) -> list[str]:
    return [a.document(q[: a.length // 2], ["changed"], q[a.length // 2 + 1 :], answer)]


def one_word_more(a: Author, q: list[str], answer: list[str]) -> list[str]:
    """A word is inserted, so that the question ends a word later."""
    return [a.document(q[: a.length // 2], ["more"], q[a.length // 2 :], answer)]


def cut_elsewhere(a: Author, q: list[str], answer: list[str]) -> list[str]:
    """The same letters, but in each run two words are cut in another place."""
    words = list(q)
    for place in range(1, len(q) - 1, a.n):
        first, second = words[place : place + 2]
        words[place : place + 2] = (first + second[0], second[1:]) if second[1:] else (first[:-1], first[-1] + second)
    return [a.document([word for word in words if word], answer)]


def first_words(count: int) -> Any:
    """A question of 25 words, and a document with the first of them."""

    def kind(a: Author) -> Planted:
        question = a.some(25)
        return [test(question, a.answer())], [a.document(question[:count])]

    return kind


def short(a: Author) -> Planted:
    question, answer = a.some(a.n - 1), a.answer()
    return [test(question, answer)], [a.document(question, answer)]


def one_run(a: Author) -> Planted:
    question, answer = a.some(a.n), a.answer()
    return [test(question, answer)], [a.document(question, answer)]


def without_words(question: bool) -> Any:
    """A question or an answer that has no words."""

    def kind(a: Author) -> Planted:
        words, answer = a.question(), a.answer()
        pair = ("?! ...", text(answer)) if question else (text(words), "-->")
        return [pair], [a.document(words, answer), "", "... ?!", text(words[: a.n - 1])]

    return kind


def opening(leaked: bool) -> Any:
    """A question that begins like many others, with fewer than half of its words. Documents have that beginning."""

    def kind(a: Author) -> Planted:
        start = OPENING[: 2 * a.n - 2]
        question, answer = [*start, *a.some(a.length - len(start))], a.answer()
        return [test(question, answer)], [a.document(question, answer) if leaked else a.document(start, a.some(9))]

    return kind


GROUPS: Mapping[str, Mapping[str, Callable[[Author], Planted]]] = {
    "copies": {
        "is in no document": with_documents(lambda a, q, answer: [a.document(a.some(a.length))]),
        "is in a document, with its answer": with_documents(lambda a, q, answer: [a.document(q, answer)]),
        "is in a document, without its answer": with_documents(lambda a, q, answer: [a.document(q)]),
    },
    "parts": {
        "is in no document": with_documents(lambda a, q, answer: [a.document(a.some(a.length))]),
        "is in a document up to exactly one half": with_documents(lambda a, q, answer: [a.document(q[: 2 * a.n])]),
        "is in a document up to less than one half": with_documents(
            lambda a, q, answer: [a.document(q[: 2 * a.n - 1])]
        ),
        "is in two documents, each with a part": with_documents(
            lambda a, q, answer: [a.document(q[: 2 * a.n - 1]), a.document(q[1 - 2 * a.n :])]
        ),
        "is in a document in two parts": with_documents(
            lambda a, q, answer: [a.document(q[: a.n], a.some(4), q[-a.n - 1 :])]
        ),
        "has its last run in a document": with_documents(lambda a, q, answer: [a.document(q[-a.n :])]),
        "has its first run at the end of a document": with_documents(
            lambda a, q, answer: [text([*a.some(4), *q[: a.n]])]
        ),
        "is in a document with its words in another order": with_documents(
            lambda a, q, answer: [a.document([q[place] for place in a.rng.permutation(len(q))], answer)]
        ),
        "is in a document backward": with_documents(lambda a, q, answer: [a.document(q[::-1], answer)]),
        "is in a document with every n-th word changed": with_documents(every_run_broken),
        "is in a document with one word changed": with_documents(one_word_changed),
        "has its letters in a document, cut into other words": with_documents(cut_elsewhere),
        "has one run twice in a document": with_documents(
            lambda a, q, answer: [a.document(q[: a.n], a.some(3), q[: a.n])]
        ),
        "has a run twice, which is in a document once": run_twice,
        "is in a document, and in part in a later one": with_documents(
            lambda a, q, answer: [a.document(q), a.document(q[: a.n])]
        ),
        "is at the end of a document and the beginning of the next one": with_documents(across),
        "is in a long document": with_documents(lambda a, q, answer: [a.document(a.some(90), q, a.some(90))]),
        "shares its first half with another one": shared_beginning,
        "begins like many others": opening(leaked=False),
        "begins like many others, and is in a document": opening(leaked=True),
    },
    "just": {
        "is in a document up to 13 of its 25 words": first_words(13),
        "is in a document up to 14 of its 25 words": first_words(14),
        "is in a document up to 15 of its 25 words": first_words(15),
    },
    "answers": {
        "is in a document, with its answer": with_documents(lambda a, q, answer: [a.document(q, answer)]),
        "is in a document, with its answer of several words": with_documents(
            lambda a, q, answer: [a.document(q, ["it", "is"], answer)], 3
        ),
        "is in a document, with its answer before it": with_documents(
            lambda a, q, answer: [a.document(answer, q, a.far())]
        ),
        "has its answer in another document": with_documents(
            lambda a, q, answer: [a.document(q, a.far()), a.document(answer)]
        ),
        "has its answer in an earlier document": with_documents(
            lambda a, q, answer: [a.document(answer), a.document(q, a.far())]
        ),
        "names its answer, which does not follow": lambda a: inside_question(a, answer_again=False),
        "names its answer, which follows, too": lambda a: inside_question(a, answer_again=True),
        "has its answer in reach": with_documents(lambda a, q, answer: [a.document(q, a.some(a.reach - 1), answer)], 2),
        "has its answer one word too far away": with_documents(
            lambda a, q, answer: [a.document(q, a.some(a.reach), answer)]
        ),
        "has its answer far away": with_documents(lambda a, q, answer: [a.document(q, a.far(), answer)]),
        "has its answer at the end of a document": with_documents(lambda a, q, answer: [text([*q, "it", *answer])], 2),
        "is followed by the first words of its answer": with_documents(
            lambda a, q, answer: [a.document(q, answer[:-1])], 3
        ),
        "is followed by the beginning of its answer, at the end of a document": with_documents(
            lambda a, q, answer: [text([*q, *answer[:-1]])], 3
        ),
        "is followed by its answer in another order": with_documents(
            lambda a, q, answer: [a.document(q, answer[::-1])], 3
        ),
        "is followed by words that contain its answer": part_of_a_word,
        "is followed by numbers that contain its answer": number_in_a_number,
        "is in no document, but its answer is": with_documents(
            lambda a, q, answer: [a.document(answer), a.document(a.some(a.length), answer)]
        ),
        "is in a document in part, with its answer": with_documents(
            lambda a, q, answer: [a.document(q[1 - 3 * a.n :], answer), a.document(q)]
        ),
        "is in two documents, the second with its answer": with_documents(
            lambda a, q, answer: [a.document(q), a.document(q, answer)]
        ),
        "is in two documents, the first with its answer": with_documents(
            lambda a, q, answer: [a.document(q, answer), a.document(q)]
        ),
        "is twice in a document, the second time with its answer": with_documents(
            lambda a, q, answer: [a.document(q, a.far(), q, answer)]
        ),
        "is twice in a document, the first time with its answer": with_documents(
            lambda a, q, answer: [a.document(q, answer, a.far(), q)]
        ),
        "is in a document with a word more, and its answer": with_documents(one_word_more),
        "is twice in the test set": same_question,
    },
    "odd": {
        "is shorter than a run": short,
        "is one run": one_run,
        "is one run, in no document": lambda a: ([test(a.some(a.n), a.answer())], []),
        "has no words": without_words(question=True),
        "has an answer without words": without_words(question=False),
        "is in no document": with_documents(lambda a, q, answer: []),
    },
}
