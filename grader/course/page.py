"""A problem's page: its sections, its hints, and the text without the hints."""

import re

from grader.course import formulas
from grader.course.catalog import page_text
from grader.problem import Problem

SECTIONS = (
    "Why this matters",
    "The architecture",
    "The ideas",
    "A worked sketch",
    "Pitfalls",
    "The problem",
    "Inputs",
    "Output",
    "Examples",
    "Hints",
)
FORMULAS = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # blocks with a formula on each line


def sections(problem: Problem) -> dict[str, str]:
    """The text under each second-level heading, in order."""
    parts = re.split(r"^## (.+)\n", page_text(problem), flags=re.MULTILINE)
    return {title.strip(): text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def hints(problem: Problem) -> list[str]:
    """The numbered items of the section `Hints`, from a nudge to nearly the answer."""
    items = re.split(r"^\d+\. ", sections(problem).get("Hints", ""), flags=re.MULTILINE)[1:]
    return [re.sub(r"^ {3}", "", item.strip(), flags=re.MULTILINE) for item in items]


def without_hints(problem: Problem) -> str:
    """The page up to its hints, which `grade hint` shows one at a time."""
    return page_text(problem).split("\n## Hints\n")[0].strip() + "\n"


def as_text(markdown: str) -> str:
    """Markdown of a page with its formulas as text, for a terminal."""
    return FORMULAS.sub(
        lambda match: "\n".join(["```text", *map(formulas.as_text, match[1].splitlines()), "```"]), markdown
    )
