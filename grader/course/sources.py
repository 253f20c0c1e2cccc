"""The works that the pages name in their section Sources, and the list of all of them."""

import re
import unicodedata

from grader.course import catalog, page
from grader.errors import CourseError
from grader.problem import Problem

_ITEM = re.compile(r"^- (.+?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
# A colon ends the work. Its title stands between asterisks and may have colons of its own.
_WORK = re.compile(r"([^*]+\*.+?\*[^:]*|[^*:]+): .+")
_NUMBER = re.compile(r"\barXiv (\d{4}\.\d{4,5})\b")


def of(problem: Problem) -> list[str]:
    """Returns the works that a page names, in order: authors, year, title and number, as Markdown.

    Raises CourseError if a source does not say, after a colon, what the page has of it.
    """
    works = []
    for item in _ITEM.findall(page.sections(problem).get("Sources", "")):
        text = " ".join(item.split())
        match = _WORK.fullmatch(text)
        if match is None:
            raise CourseError(
                f"{problem.folder / 'page.md'}: the source {text!r} needs a colon, and then what the page has of it."
            )
        works.append(match[1])
    return works


def as_page() -> str:
    """Returns a page of the book: the works of all pages by their authors, with links to the pages, as Markdown."""
    cited: dict[str, list[Problem]] = {}
    for problem in catalog.problems():
        for work in of(problem):
            cited.setdefault(work, []).append(problem)
    lines = ["# Sources", "", "The works that the pages name, with the problems that use them.", ""]
    for work in sorted(cited, key=_order):
        places = ", ".join(f"[{problem.label}]({problem.name}.md#sources)" for problem in cited[work])
        linked = _NUMBER.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", work)
        lines.append(f"- {linked}: {places}.")
    return "\n".join(lines) + "\n"


def _order(work: str) -> str:
    """Returns the key to sort a work by: without article and accents."""
    return unicodedata.normalize("NFKD", work.removeprefix("The ").casefold())
