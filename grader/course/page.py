"""A problem's page: its sections, its hints, and the text without the hints, for a terminal and for a browser."""

import re
from pathlib import Path

from commandline.text import counted
from grader.course import drawing, formulas, predictions
from grader.course.catalog import page_text, text_of
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
    "Sources",
    "Hints",
)
_LEFT_OUT = ("The architecture", "The ideas", "A worked sketch", "Pitfalls", "Examples")  # of a cold page
# The scripts and the style of a page's explorables: see the head of the first script.
EXPLORABLES = tuple(
    Path(__file__).with_name(name) for name in ("explorables.js", "explorables_page.js", "explorables.css")
)
FORMULAS = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # blocks with a formula on each line
FIRST_PITFALLS = 3
_PITFALLS = re.compile(r"^## Pitfalls\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_FOLDED = re.compile(
    r'<details class="pitfalls" data-problem="(\d+)" markdown="1"><summary>(\d+ more pitfalls?).*?</summary>\n\n'
    r"(.*?)\n\n</details>",
    re.DOTALL,
)
_EXPLORABLE = re.compile(r"^<!-- explorable: ([\w= .-]+?) -->$", re.MULTILINE)


def sections(problem: Problem) -> dict[str, str]:
    """Returns the text under each second-level heading, in order."""
    parts = re.split(r"^## (.+)\n", page_text(problem), flags=re.MULTILINE)
    return {title.strip(): text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def hints(problem: Problem) -> list[str]:
    """Returns the numbered items of the section `Hints`, from a nudge to nearly the answer."""
    items = re.split(r"^\d+\. ", sections(problem).get("Hints", ""), flags=re.MULTILINE)[1:]
    return [re.sub(r"^ {3}", "", item.strip(), flags=re.MULTILINE) for item in items]


def without_hints(problem: Problem) -> str:
    """Returns the page up to its hints, which `grade hint` shows one at a time.

    The answers of its predictions are folded away, and so are all pitfalls but the first ones: what a page warns of,
    nobody finds out. Raises CourseError if a prediction is malformed.
    """
    text = page_text(problem).split("\n## Hints\n")[0].strip() + "\n"
    return _PITFALLS.sub(lambda match: _fold_pitfalls(problem, match[0]), predictions.folded(problem, text))


def cold(problem: Problem) -> str:
    """Returns what somebody reads who works from a paper: why, the formulas without their words, what to write, and the
    sources."""
    text = re.sub(
        rf"{predictions.BLOCK.pattern}\n+|{_EXPLORABLE.pattern}\n+", "", page_text(problem), flags=re.M | re.S
    )
    title, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    shown = {part.split("\n", 1)[0].removeprefix("## ").strip(): part.strip() for part in parts}
    formulas_ = [match[0] for name in _LEFT_OUT for match in FORMULAS.finditer(shown.pop(name, ""))]
    shown.pop("Hints", None)
    why, rest = [*shown.values()][:1], [*shown.values()][1:]
    middle = ["## Formulas", *formulas_] if formulas_ else []
    return "\n\n".join([title.strip(), *why, *middle, *rest]) + "\n"


def _fold_pitfalls(problem: Problem, section: str) -> str:
    """Returns the section with all pitfalls but the first ones folded away."""
    title, *items = re.split(r"^(?=- )", section, flags=re.MULTILINE)
    more = items[FIRST_PITFALLS:]
    if not more:
        return section
    return (
        f"{title}{''.join(items[:FIRST_PITFALLS])}\n"
        f'<details class="pitfalls" data-problem="{problem.label}" markdown="1">'
        f"<summary>{counted(len(more), 'more pitfall')}, for after your first attempt</summary>\n\n"
        f"{''.join(more).strip()}\n\n</details>\n\n"
    )


def for_browser(problem: Problem) -> str:
    """Returns the page without its hints, as Markdown, with a picture in place of its first text drawing.

    The picture is drawn from `drawing.txt`, or an author's own `drawing.svg`. It stands inline in a `<figure
    class="drawing">`, so that it takes the colors of the page around it. A problem with neither keeps its text drawing.
    An explorable becomes a `<figure class="explorable">` with its still picture `explorable.svg`. Raises CourseError if
    `drawing.txt` cannot be drawn.
    """

    def explorable(match: re.Match[str]) -> str:
        return f'<figure class="explorable" data-explorable="{match[1]}">\n{_svg(problem, "explorable.svg")}</figure>'

    text = _EXPLORABLE.sub(explorable, without_hints(problem))
    picture = _drawn(problem) or _svg(problem, "drawing.svg")
    if not picture:
        return text
    figure = f'<figure class="drawing" tabindex="0">\n{picture}</figure>'
    return re.sub(r"^```text\n.*?^```$", lambda _: figure, text, count=1, flags=re.MULTILINE | re.DOTALL)


def _drawn(problem: Problem) -> str:
    """Returns the drawing that the folder of a problem describes; nothing if there is none."""
    path = problem.folder / drawing.FILE
    return drawing.render(problem.name, text_of(path)) if path.is_file() else ""


def _svg(problem: Problem, name: str) -> str:
    """Returns a picture in the folder of a problem; nothing if there is none."""
    path = problem.folder / name
    return text_of(path) if path.is_file() else ""


def as_text(markdown: str, *, all_pitfalls: bool = False) -> str:
    """Returns the Markdown of a page for a terminal, with its formulas as text, and its predictions without their
    answers. An explorable is replaced by its table.

    Of the pitfalls that are folded away, the number is said, unless `all_pitfalls` are to be shown.
    """
    folded = r"\3" if all_pitfalls else r"\2, for after your first attempt: `grade show \1 --pitfalls`."
    return FORMULAS.sub(
        lambda match: "\n".join(["```text", *map(formulas.as_text, match[1].splitlines()), "```"]),
        _FOLDED.sub(folded, predictions.asked(re.sub(rf"{_EXPLORABLE.pattern}\n\n", "", markdown, flags=re.MULTILINE))),
    )
