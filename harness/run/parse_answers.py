r"""Answers in texts: the number or the expression that a continuation ends with.

An answer is marked: by `\boxed{42}`, `#### 42`, `The answer is 42`, or `= 42`, the first of these forms that occurs, at
its last occurrence. Without a mark, the whole text must be the answer. Nothing after the number may change it. After a
mark, `42 + 1`, `42 or 43`, `42 million` and `4,2` all count as no answer: to miss a right answer costs one sample, but
the model would learn from a wrong one.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

_MARKS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\\boxed\s*\{(?P<rest>(?:[^{}]|\{[^{}]*\})*)\}",
        r"####(?=(?P<rest>[^\n]*))",
        r"\banswer(?:\s+is\b|\s*:|\s*=|\s+is\s*:)\s*:?(?=(?P<rest>[^\n]*))",
        r"=(?P<rest>[^=\n]*)",
    )
)
_WRAPPERS = r"[\s$€£*_`'\"(\[{]*(?:\\\()?\s*"
_NUMBER = re.compile(
    rf"""{_WRAPPERS}
    (?P<sign>[-+−]?)[$€£]?
    (?:\\d?frac\{{(?P<over>\d+)\}}\{{(?P<under>\d+)\}}
      |(?P<whole>\d{{1,3}}(?:,\d{{3}})+(?!,?\d)|\d+)?(?P<decimals>\.\d+)?(?:/(?P<divisor>\d+))?)
    (?:[.,;:!?)\]}}*_`'"$%€£]|\\\))*
    (?=\s|$)
    (?!\s*(?:[-+−*/^×÷=<>\d]|(?:or|and|to|hundreds?|thousands?|millions?|billions?|trillions?|dozens?)\b))""",
    re.VERBOSE | re.IGNORECASE,
)
_OPERATORS: dict[type[ast.AST], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_MOST_CHARACTERS = 200  # of an expression


def marked(text: str, *, equations: bool = True) -> str:
    """What follows the mark of the answer; the whole text without a mark. `equations=False` takes `=` for no mark."""
    for pattern in _MARKS if equations else _MARKS[:-1]:
        if found := [*pattern.finditer(text)]:
            return found[-1]["rest"]
    return text


def number_in(text: str) -> Fraction | None:
    """The number that a text gives as its answer, exactly; None if it gives none."""
    answer = marked(text).replace("{,}", ",").strip()
    found = _NUMBER.match(answer)
    if found is None or (answer == text.strip() and found.end() < len(answer)):
        return None
    sign = -1 if found["sign"] in ("-", "−") and found["sign"] else 1
    if found["over"]:
        over, under = Fraction(found["over"]), int(found["under"])
    elif found["whole"] or found["decimals"]:
        over = Fraction((found["whole"] or "0").replace(",", "") + (found["decimals"] or ""))
        under = int(found["divisor"] or 1)
    else:
        return None
    return sign * over / under if under else None


def numbers_and_value(text: str) -> tuple[Counter[int], Fraction] | None:
    """The numbers of the expression that a text gives as its answer, how often each occurs, and its value.

    An expression has whole numbers, + - * /, parentheses, and may be followed by `=` and anything. None for all else.
    """
    expression = marked(text, equations=False).partition("=")[0].replace("\\(", "").replace("\\)", "")
    plain = expression.replace("×", "*").replace("÷", "/").replace("−", "-").strip(" \t\n$`").rstrip(".!")
    if len(plain) > _MOST_CHARACTERS or not re.fullmatch(r"[\d\s+\-*/()]+", plain):
        return None
    try:
        tree = ast.parse(plain, mode="eval").body
        used: Counter[int] = Counter()
        return used, _value(tree, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.AST, used: Counter[int]) -> Fraction:
    """The value of an expression. Counts its numbers in `used`. Raises ValueError for what is no expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        used[node.value] += 1
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, used), _value(node.right, used))
    raise ValueError
