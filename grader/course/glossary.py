"""The glossary of a course: the field's words, each with the problem that teaches it, and links to them in pages.

It stands in `problems/glossary.md`, a paragraph for each entry:

    **key-value cache, KV cache** (30): The keys and values of earlier positions, kept so that ...

The words before the number mean the same.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.course import catalog, selection

FILE = "glossary.md"
TITLE = "Glossary"
_ENTRY = re.compile(r"^\*\*([^*]+)\*\* \((\d\d)\): (.+?)(?=\n\n|\n?\Z)", re.MULTILINE | re.DOTALL)
# Where a page gets no links: code, headings, the titles of works, drawings, questions, links and tags.
_LEFT_OUT = (
    r"^```.*?^```|^## Sources\n.*?(?=^## |\Z)|^#[^\n]*|<figure.*?</figure>|<summary>.*?</summary>"
    r'|<div class="predict".*?</details>\n\n</div>|`[^`]+`|\[[^\]]*\]\([^)]*\)|<[^>]+>'
)


@dataclass(frozen=True)
class Entry:
    """An entry of the glossary.

    Attributes:
        words: The words that it explains, which mean the same. The first one orders the glossary.
        problem: The two digits of the problem that teaches it.
        meaning: What they mean, as Markdown.
    """

    words: tuple[str, ...]
    problem: str
    meaning: str

    @property
    def anchor(self) -> str:
        """Where it is on the page of the glossary."""
        return re.sub(r"\W+", "-", self.words[0].casefold())

    @property
    def taught_by(self) -> ProblemName | None:
        """The name of the problem; None if the selected course does not have it."""
        return next((name for name in catalog.names() if name.label == self.problem), None)


def path() -> Path:
    """Returns the file of the glossary of the selected course. A course need not have one."""
    return selection.selected().root / "problems" / FILE


def entries() -> list[Entry]:
    """Returns the glossary of the selected course, in its order; nothing if it has none."""
    found = _ENTRY.findall(catalog.text_of(path())) if path().is_file() else []
    return [Entry(tuple(words.split(", ")), problem, " ".join(text.split())) for words, problem, text in found]


def find(word: str) -> Entry:
    """Returns the entry that explains a word. Raises UsageError, which names the nearest word, if there is none."""
    known = {each.casefold(): entry for entry in entries() for each in entry.words}
    if word.casefold() in known:
        return known[word.casefold()]
    close = nearest(word, known)
    meant = f"Did you mean {close[0]!r}?" if close else "`grade glossary` lists its words."
    raise UsageError(f"The glossary does not explain {word!r}. {meant}")


def as_page(address: Callable[[ProblemName], str]) -> str:
    """Returns the glossary as a page for a browser, as Markdown. `address` returns that of a problem's page."""
    lines = [f"# {TITLE}"]
    for entry in entries():
        name = entry.taught_by
        place = f" ([{entry.problem}]({address(name)}))" if name else ""
        words = ", ".join(entry.words)
        lines.append(f'<strong id="{entry.anchor}">{words}</strong>{place}: {entry.meaning}')
    return "\n\n".join(lines) + "\n"


def linked(markdown: str, address: str) -> str:
    """Returns the Markdown of a page for a browser, with a link to each entry where the page first uses one of its
    words. `address` is that of the glossary."""
    known = [(word, entry) for entry in entries() for word in entry.words]
    known.sort(key=lambda pair: -len(pair[0]))  # of "attention" and "ring attention", the longer one is meant
    if not known:
        return markdown
    # At the beginning of a sentence a word has a capital letter. Other letters count: ZeRO is not zero.
    words = "|".join(f"((?i:{word[0]}){re.escape(word[1:])})".replace(r"\ ", r"\s+") for word, _ in known)
    used = set[Entry]()

    def link(match: re.Match[str]) -> str:
        entry = known[(match.lastindex or 0) - 2][1]
        if match[1] or entry in used:
            return match[0]
        used.add(entry)
        return f'<a class="term" href="{address}#{entry.anchor}">{match[0]}</a>'

    pattern = rf"({_LEFT_OUT})|(?<![\w-])(?:{words})(?:e?s)?(?![\w-])"
    return re.sub(pattern, link, markdown, flags=re.MULTILINE | re.DOTALL)
