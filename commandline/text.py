"""Text of unknown origin, made safe to show."""


def printable(text: str) -> str:
    """The text with control characters escaped, safe for a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
