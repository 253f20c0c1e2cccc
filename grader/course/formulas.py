"""Formulas as text: the LaTeX of the pages in one line of Unicode.

Libraries for this drop the braces around the parts of a fraction, or leave most commands as they are.
"""

import re
import unicodedata
from collections import deque

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|[^\\\s]")
_SYMBOLS = {
    "sum": "Σ",
    "nabla": "∇",
    "cdot": "·",
    "times": "×",
    "pm": "±",
    "ne": "≠",
    "le": "≤",
    "ge": "≥",
    "top": "⊤",
    "in": "∈",
    "infty": "∞",
    "cap": "∩",
    "cup": "∪",
    "lambda": "λ",
    "approx": "≈",
    "to": "→",
    "left": "",
    "right": "",
    "qquad": "\0",
    ",": " ",
}
_ACCENTS = {"bar": "\N{COMBINING MACRON}", "hat": "\N{COMBINING CIRCUMFLEX ACCENT}", "tilde": "\N{COMBINING TILDE}"}
_UPRIGHT = {"text", "operatorname"}
_SUPERSCRIPTS = dict(zip("0123456789+-=bijknrT⊤", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼ᵇⁱʲᵏⁿʳᵀᵀ", strict=True))
_SUBSCRIPTS = dict(zip("0123456789+-=aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_LONGEST_SCRIPT = 3  # characters; longer scripts are hard to read as small letters
_LONGEST_LINE = 72  # columns, as for the drawings of the pages
_ENDS_QUOTIENT = {"+", "-", "=", ")", "]", "}", ",", "\\right", "\\qquad", ""}


def as_text(latex: str) -> str:
    """Returns one formula as a line of text, or as two if it is long.

    A fraction becomes a quotient, with the parentheses that it then needs.
    """
    text = unicodedata.normalize("NFC", _sequence(deque(_TOKEN.findall(latex))))
    text = re.sub(r"(?<=[(\[]) +| +(?=[)\]])", "", re.sub(" +", " ", text))
    text = re.sub(" ?\0 ?", "    ", text).strip()
    above, slash, below = text.rpartition(" / ")
    if len(text) <= _LONGEST_LINE or not slash:
        return text
    return f"{above}\n{' ' * (above.find('= ') + 2)}/ {below}"


def _sequence(tokens: deque[str]) -> str:
    """Returns the text of the tokens up to the end or an unmatched brace."""
    text = ""
    while tokens and tokens[0] != "}":
        match tokens.popleft():
            case "^":
                text += _script(_argument(tokens), _SUPERSCRIPTS, "^({})")
            case "_":
                text += _script(_argument(tokens), _SUBSCRIPTS, "[{}]")
            case first:
                text += _atom(first, tokens)
    return text


def _argument(tokens: deque[str]) -> str:
    while tokens and tokens[0].isspace():
        tokens.popleft()
    return _atom(tokens.popleft(), tokens) if tokens else ""


def _atom(first: str, tokens: deque[str]) -> str:
    """Returns the text of a token and of what belongs to it."""
    name = first.removeprefix("\\")
    if first == "{":
        inner = _sequence(tokens)
        if tokens:
            tokens.popleft()
        return inner
    if first == name:
        return " " if first.isspace() else first
    if name == "frac":
        above, below = _argument(tokens), _argument(tokens)
        quotient = f"{_in_parentheses(above, '+-/Σ')} / {_in_parentheses(below, '+-/Σ· ')}"
        following = next((token for token in tokens if not token.isspace()), "")
        return quotient if following in _ENDS_QUOTIENT else f"({quotient})"
    if name == "sqrt":
        return f"√{_in_parentheses(_argument(tokens), '+-/Σ· ^')}"
    if name in _ACCENTS:
        return _argument(tokens) + _ACCENTS[name]
    return _argument(tokens) if name in _UPRIGHT else _symbol(name)


def _symbol(name: str) -> str:
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name}")
    except KeyError:
        return name  # of a function, such as `ln`


def _script(text: str, letters: dict[str, str], otherwise: str) -> str:
    """Returns a superscript or subscript in small letters, if it is short and Unicode has them."""
    if len(text) <= _LONGEST_SCRIPT and all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    return f"_{text}" if otherwise == "[{}]" and text.isidentifier() else otherwise.format(text)


def _in_parentheses(text: str, operators: str) -> str:
    """Returns the text, in parentheses if one of the operators stands in it outside of parentheses."""
    text, outside = text.strip(), text.strip()
    while (less := re.sub(r"\([^()]*\)", "", outside)) != outside:
        outside = less
    return f"({text})" if any(operator in outside for operator in operators) else text
