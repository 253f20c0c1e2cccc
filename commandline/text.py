"""Text for people: control characters escaped, nouns counted."""


def printable(text: str) -> str:
    """The text with control characters escaped, except for newlines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def counted(number: int, noun: str) -> str:
    """`1 problem`, `2 problems`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
