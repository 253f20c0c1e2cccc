"""Makes untrusted text safe to print."""


def printable(text: str) -> str:
    """The text with control characters escaped, except for newlines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
