"""The predictions on a page: questions that a learner answers before reading on, each with the example that proves the
answer.

A prediction is a block of the page:

    ```predict
    How many parameters does the head add?

    = 0

    It is the token table, used a second time.

    >>> 10 * 4 - 40
    0
    ```

Instead of `= 0`, a list may hold two to five choices, of which the right one begins with `[x]`. The example is tested
and not shown: its last line is the answer.
"""

import hashlib
import itertools
import re
from dataclasses import dataclass

from grader.course.catalog import page_text
from grader.errors import CourseError
from grader.problem import Problem

BLOCK = re.compile(r"^```predict\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST, MOST_CHOICES = 3, 5
CLOSE = 0.02  # relative: an answer may be rounded to two digits

_PARTS = re.compile(
    r"(?P<question>.+?)\n\n(?:= (?P<number>[^\n]+)|(?P<choices>(?:- [^\n]+\n(?:  [^\n]+\n)*)+))\n+(?P<why>.+?)\n\n"
    r"(?P<proof>>>> .+)",
    re.DOTALL,
)
_FOLDED = re.compile(
    r'<div class="predict" markdown="1" data-problem="(\d+)" data-predict="\d+">\n\n'
    r"(.*?)<details .*?</details>\n\n</div>",
    re.DOTALL,
)
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Prediction:
    """A question of a page.

    Attributes:
        question: The question, as Markdown.
        choices: The possible answers, as Markdown; none if the answer is a number.
        answer: The right answer: one of the choices, or a number as the page writes it, with its unit if it has one.
        why: What explains the answer, as Markdown.
        proof: The `>>>` example, whose last line is the answer.
    """

    question: str
    choices: tuple[str, ...]
    answer: str
    why: str
    proof: str

    @property
    def id(self) -> str:
        """A text that identifies the question in a log, while its words stay the same."""
        return hashlib.sha256(self.question.encode()).hexdigest()[:8]

    @property
    def asked(self) -> str:
        """The question and its numbered choices, as Markdown."""
        choices = "".join(f"{place}. {choice}\n" for place, choice in enumerate(self.choices, 1))
        return f"{self.question}\n" + (f"\n{choices}" if choices else "")

    def reply(self, *, right: bool) -> str:
        """Returns the sentence that tells a learner whether the answer was right, as Markdown."""
        return "Right." if right else f"No: {self.answer.rstrip('.')}."

    def is_right(self, text: str) -> bool:
        """Returns whether a learner's answer is right: the number or the text of a choice, or a number that is near
        enough. Raises ValueError, with a sentence, if it is no answer."""
        if self.choices:
            chosen = text.strip()
            if chosen.isdecimal() and 1 <= int(chosen) <= len(self.choices):
                return self.choices[int(chosen) - 1] == self.answer
            if chosen in self.choices:
                return chosen == self.answer
            raise ValueError(f"Answer with a number from 1 to {len(self.choices)}.")
        given, right = _number(text), _number(self.answer)
        if given is None or right is None:
            raise ValueError("Answer with a number.")
        return abs(given - right) <= CLOSE * abs(right)

    def is_proved(self) -> bool:
        """Returns whether the last line of the example is the answer."""
        last = self.proof.strip().splitlines()[-1].strip()
        if self.choices:
            return last.strip("'\"") == self.answer
        shown = _number(last)
        return shown is not None and self.is_right(str(shown))


def of(problem: Problem) -> list[Prediction]:
    """Returns the predictions of a page, in order. Raises CourseError if one is malformed."""
    return [_parsed(problem, match[1]) for match in BLOCK.finditer(page_text(problem))]


def examples(problem: Problem) -> str:
    """Returns the examples of all predictions, as the text of a page."""
    return "\n\n".join(f"```python\n{prediction.proof}\n```" for prediction in of(problem))


def folded(problem: Problem, markdown: str) -> str:
    """Returns the Markdown of a page of a problem with the answer of each prediction folded away.

    Raises CourseError if a prediction is malformed.
    """
    numbers = itertools.count(1)

    def fold(match: re.Match[str]) -> str:
        prediction = _parsed(problem, match[1])
        return (
            f'<div class="predict" markdown="1" data-problem="{problem.label}" data-predict="{next(numbers)}">\n\n'
            f"**Predict.** {prediction.asked}\n"
            f'<details markdown="1"><summary>The answer</summary>\n\n{prediction.answer}\n\n{prediction.why}\n\n'
            "</details>\n\n</div>"
        )

    return BLOCK.sub(fold, markdown)


def asked(markdown: str) -> str:
    """Returns the Markdown of a page that `folded` wrote without the answers, for a terminal."""
    return _FOLDED.sub(r"\2`grade predict \1` takes your answer.", markdown)


def _parsed(problem: Problem, text: str) -> Prediction:
    match = _PARTS.fullmatch(text.strip() + "\n")
    if match is None:
        first = text.strip().splitlines()[0] if text.strip() else ""
        raise CourseError(
            f"{problem.folder / 'page.md'}: the prediction {first!r} needs a question, then `= NUMBER` or a list of "
            "choices, then why, then a `>>>` example, with an empty line between them."
        )
    part = {name: value and value.strip() for name, value in match.groupdict().items()}
    items = (
        re.findall(r"^- (.+?)(?=^- |\Z)", f"{part['choices']}\n", re.MULTILINE | re.DOTALL) if part["choices"] else []
    )
    choices = [" ".join(item.split()) for item in items]
    right = [choice.removeprefix("[x]").strip() for choice in choices if choice.startswith("[x]")]
    if choices and (len(right) != 1 or not 2 <= len(choices) <= MOST_CHOICES):
        raise CourseError(
            f"{problem.folder / 'page.md'}: the prediction {part['question']!r} needs 2 to {MOST_CHOICES} choices, of "
            "which one begins with `[x]`."
        )
    plain = tuple(choice.removeprefix("[x]").strip() for choice in choices)
    return Prediction(part["question"], plain, right[0] if choices else part["number"], part["why"], part["proof"])


def _number(text: str) -> float | None:
    found = _NUMBER.search(text.strip())
    return float(found[0].replace(",", "").replace("−", "-")) if found else None
