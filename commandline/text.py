"""Text for people: control characters escaped, nouns counted, remarks as sentences."""

# Of the characters that cannot be seen, people's names need these: joiners, and the spaces of their scripts.
_IN_NAMES = "\u200c\u200d\u00a0\u3000"


def printable(text: str) -> str:
    """Returns the text with control characters escaped, except for newlines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Returns a name that somebody else chose, as text that can be stored and shown: control characters, characters
    that change the direction of text, and bytes that are not UTF-8 are escaped."""
    return "".join(c if c.isprintable() or c in _IN_NAMES else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """Returns the character as in a Python string. An undecodable byte, which Python keeps as a surrogate, is shown as
    the byte."""
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 problem`, `2 problems`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sentence(remark: str) -> str:
    """Returns a remark as a sentence. One that begins with a name of code, such as jax.jit, keeps its first letter."""
    begins_with_code = "." in remark.partition(" ")[0]
    first = remark if begins_with_code else f"{remark[:1].upper()}{remark[1:]}"
    return first if first.endswith((".", "?", "!")) else f"{first}."
