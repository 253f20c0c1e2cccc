"""Results that are typed in a report, however people write numbers: `0.35`, `0,35`, `3 %`, `two hundredths`, `1 nat`.

A number is no result if it was said before the runs, or if it is a setting of the runs with its name in the same
paragraph. A whole number is none either, such as `3 seeds`, unless its unit is that of a result.
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_PARTS = {"tenth": 10, "hundredth": 100, "thousandth": 1000}
_MARKS = str.maketrans("", "", "\\*_`{}$")  # of Markdown and LaTeX, in `0{,}35`, `3\%` and `0.**35**`
_FRACTION = re.compile(r"\\[dt]?frac *\{ *(\d+) *\} *\{ *(\d+) *\}")
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_POINT = re.compile(r"(\d+)\s+point\s+(\d+)", re.IGNORECASE)
_PART = re.compile(rf"\b(an?|\d+)[\s-]+({'|'.join(_PARTS)})s?\b", re.IGNORECASE)
# Links, numbers of arXiv, of versions and of places in a text, and with two points or commas: dates, versions, lists
_OTHER = re.compile(
    r"https?://\S+|\b\d{4}\.\d{4,5}\b|\d+(?:\.\d+){2,}|\d+(?:,\d+){2,}"
    r"|\b(?:python|jax|flax|numpy|version|section|chapter|figure|table)\s+\d+(?:\.\d+)+",
    re.IGNORECASE,
)
# Decimals and percentages; whole numbers and fractions of a nat; negative powers of ten
_RESULT = re.compile(
    r"(?P<number>(?:\d+[.,]\d+|(?<!\w)\.\d+)(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d+(?=\s*(?:%|per\s?cent)))"
    r"(?P<percent>\s*(?:%|per\s?cent))?"
    r"|(?:(?:\d+\s*[/\N{FRACTION SLASH}]\s*)?\d+|(?:half|third|quarter)s?)\s+(?:of\s+)?(?:an?\s+)?nats?\b"
    r"|\d+\s*\N{PER MILLE SIGN}"
    r"|(?:\d+\s*)?(?:times|cdot|[x×·])\s*10\s*\^?[-\N{MINUS SIGN}]\s*\d+|10\s*\^\s*[-\N{MINUS SIGN}]\s*\d+",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?(?:e[-+]?\d+)?|\.\d+", re.IGNORECASE)
_LEVELS = frozenset({"80%", "90%", "95%", "99%", "100%"})  # of confidence


class Typed(NamedTuple):
    """A result that is typed.

    Attributes:
        line: The number of its line.
        text: The number, in digits.
    """

    line: int
    text: str


def results(report: str, said: str, settings: Mapping[str, Any]) -> Iterator[Typed]:
    """Yields the results that are typed in a report, which has no placeholders.

    Args:
        report: The text.
        said: What was said before the runs.
        settings: The settings of the runs by name.
    """
    text, known = _OTHER.sub(_space, _plain(report)), _LEVELS | _numbers(said)
    for found in _RESULT.finditer(text):
        before, after = text.rfind("\n\n", 0, found.start()), text.find("\n\n", found.end())
        paragraph = text[before + 1 : after if after >= 0 else None]
        if not _readings(found) & (known | _named(paragraph, settings)):
            yield Typed(text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()))


def _plain(text: str) -> str:
    """Returns a text with digits for words, and without marks. It has the same lines."""
    text = _FRACTION.sub(r"\1/\2", unicodedata.normalize("NFKC", html.unescape(text))).translate(_MARKS)
    text = _WORD.sub(lambda word: str(_WORDS[word[0].lower()]), text)
    text = _POINT.sub(lambda point: f"{point[1]}.{point[2]}{_space(point)}", text)
    return _PART.sub(lambda part: f"{_value(part):g}{_space(part)}", text)


def _value(part: re.Match[str]) -> float:
    """Returns the value of `3 hundredths` or `a tenth`."""
    return (int(part[1]) if part[1].isdecimal() else 1) / _PARTS[part[2].lower()]


def _space(found: re.Match[str]) -> str:
    return " " + "\n" * found[0].count("\n")


def _numbers(text: str) -> set[str]:
    """Returns the readings of all numbers in a text."""
    plain = _plain(text)
    return {f"{_number(each[0]):g}" for each in _NUMBER.finditer(plain)}.union(*map(_readings, _RESULT.finditer(plain)))


def _named(paragraph: str, settings: Mapping[str, Any]) -> set[str]:
    """Returns the readings of the settings that a paragraph names."""
    letters = re.sub(r"[\W_]+", "", paragraph.lower())
    named = (value for name, value in settings.items() if name.replace("_", "") in letters)
    return set().union(*(_numbers(str(value)) for value in named if value))


def _readings(found: re.Match[str]) -> set[str]:
    """Returns how a number can be read: `1,024` also as 1024. Empty if it can only be a result."""
    if not (number := found["number"]):
        return set()
    count = {f"{float(number.replace(',', '')):g}"} if is_count(number) else set()
    return {f"{_number(number):g}{'%' if found['percent'] else ''}"} | count


def is_count(number: str) -> bool:
    """Whether a number can be a whole one with a comma for thousands, such as `1,024`."""
    return bool(re.fullmatch(r"[1-9]\d{0,2},\d{3}", number))


def _number(text: str) -> float:
    return float(text.replace(",", "."))
